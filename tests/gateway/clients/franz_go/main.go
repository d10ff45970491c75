// A client of franz-go against a server of Kafka's protocol: main ADDRESS TOPIC. Prints "done" if all of it worked.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 100

func main() {
	address, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	administrator := kadm.NewClient(client(address))
	defer administrator.Close()

	administer(ctx, administrator, topic)
	produce(ctx, address, topic)
	transact(ctx, address, topic, kgo.TryAbort)
	transact(ctx, address, topic, kgo.TryCommit)
	consume(ctx, address, topic)
	inspect(ctx, administrator, topic)
	fmt.Println("done")
}

func client(address string, options ...kgo.Opt) *kgo.Client {
	// Warnings go to standard error, where a test looks for them.
	logger := kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)
	opened, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.WithLogger(logger))...)
	check(err)
	return opened
}

func administer(ctx context.Context, administrator *kadm.Client, topic string) {
	_, err := administrator.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	check(err)
	configs, err := administrator.DescribeTopicConfigs(ctx, topic)
	check(err)
	for _, config := range configs[0].Configs {
		expect(config.Key != "retention.ms" || config.MaybeValue() == "-1", "retention.ms is", config.MaybeValue())
	}
}

func produce(ctx context.Context, address, topic string) {
	producer := client(address, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer producer.Close()
	for number := range records {
		producer.Produce(ctx, record(number), func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(ctx))
}

func transact(ctx context.Context, address, topic string, end kgo.TransactionEndTry) {
	producer := client(address, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
	defer producer.Close()
	check(producer.BeginTransaction())
	check(producer.ProduceSync(ctx, record(records)).FirstErr())
	check(producer.Flush(ctx))
	check(producer.EndTransaction(ctx, end))
}

func record(number int) *kgo.Record {
	return &kgo.Record{Key: fmt.Append(nil, number), Value: fmt.Append(nil, number)}
}

func consume(ctx context.Context, address, topic string) {
	consumer := client(address, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	seen := map[string]int{}
	for count := 0; count < records+1; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) { seen[string(each.Value)]++; count++ })
	}
	for number := range records + 1 {
		expect(seen[fmt.Sprint(number)] == 1, "record", number, "was seen", seen[fmt.Sprint(number)], "times")
	}
	check(consumer.CommitUncommittedOffsets(ctx))
}

func inspect(ctx context.Context, administrator *kadm.Client, topic string) {
	lags, err := administrator.Lag(ctx, topic)
	check(err)
	check(lags.Error())
	// A commit covers the markers behind the last record only if the consumer polled them.
	expect(lags[topic].Lag.Total() <= 2, "lag is", lags[topic].Lag.Total())
	_, err = administrator.DeleteGroup(ctx, topic)
	check(err)
	_, err = administrator.DeleteTopic(ctx, topic)
	check(err)
}

func check(err error) {
	expect(err == nil, err)
}

func expect(holds bool, otherwise ...any) {
	if !holds {
		panic(fmt.Sprint(otherwise...))
	}
}
