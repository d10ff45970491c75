// A client of KafkaJS against a server of Kafka's protocol: client.js ADDRESS TOPIC. Prints "done" if all of it worked.
const assert = require('node:assert')
const { CompressionTypes, Kafka, Partitioners, logLevel } = require('kafkajs')

const [address, topic] = process.argv.slice(2)
const numbers = Array.from({ length: 100 }, (_, number) => String(number))
// Warnings go to standard error, where a test looks for them.
const logCreator = () => ({ label, log }) => console.error(label, JSON.stringify(log))
const kafka = new Kafka({ brokers: [address], clientId: 'kafkajs', logLevel: logLevel.WARN, logCreator })

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await administer(admin)
  await produce()
  await transact('abort')
  await transact('commit')
  await consume()
  await inspect(admin)
  await admin.disconnect()
  console.log('done')
}

async function administer(admin) {
  const configEntries = [{ name: 'retention.ms', value: '-1' }]
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries }] })
  const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name: topic }] })
  assert.equal(resources[0].configEntries.find((each) => each.configName === 'retention.ms').configValue, '-1')
}

async function produce() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = numbers.map((number) => ({ key: number, value: number }))
  await producer.send({ topic, messages, compression: CompressionTypes.GZIP })
  await producer.disconnect()
}

async function transact(end) {
  const createPartitioner = Partitioners.DefaultPartitioner
  const settings = { transactionalId: topic, idempotent: true, maxInFlightRequests: 1, createPartitioner }
  const producer = kafka.producer(settings)
  await producer.connect()
  const transaction = await producer.transaction()
  await transaction.send({ topic, messages: [{ key: 'last', value: '100' }] })
  await transaction[end]()
  await producer.disconnect()
}

async function consume() {
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const seen = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const eachMessage = async ({ message }) => {
      if (seen.push(message.value.toString()) === numbers.length + 1) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect() // commits what was seen
  assert.deepEqual(seen.map(Number).sort((one, other) => one - other), [...numbers, 100].map(Number))
}

async function inspect(admin) {
  const ends = await admin.fetchTopicOffsets(topic)
  const [committed] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  const sum = (offsets) => offsets.reduce((total, { offset }) => total + Number(offset), 0)
  assert(sum(ends) - sum(committed.partitions) <= 2) // the markers
  await admin.deleteGroups([topic])
  await admin.deleteTopics({ topics: [topic] })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
