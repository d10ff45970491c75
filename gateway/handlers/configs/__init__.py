"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, for topics, nodes and groups of consumers.

``resources`` says what has configs, ``describing`` shows them, ``altering`` changes them; ``changes`` says what a
request changes, and ``of_nodes`` which settings of nodes clients may change.
"""
