"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, for topics, nodes and groups of consumers.

``resources`` has the kinds of resources with configs, ``describing`` shows configs, ``altering`` changes them;
``changes`` reads a request's changes, and ``of_nodes`` decides which settings of nodes clients may change.
"""
