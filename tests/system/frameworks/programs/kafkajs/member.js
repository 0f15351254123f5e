// A kafkajs consumer with its default logger: SIGTERM closes it, and a record of its name blocks it.
const { Kafka } = require('kafkajs')

const { BOOTSTRAP, GROUP, TOPIC, MEMBER } = process.env

const kafka = new Kafka({ clientId: MEMBER, brokers: [BOOTSTRAP] })
const consumer = kafka.consumer({ groupId: GROUP, sessionTimeout: 6000, heartbeatInterval: 1000 })

// As slow processing does, if the record names this member: "NAME UNTIL", in milliseconds.
async function handle({ message }) {
  const [name, until] = message.value.toString().split(' ')
  if (name === MEMBER) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - Date.now())))
  }
}

async function main() {
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
  await consumer.run({ eachMessage: handle })
}

main()
