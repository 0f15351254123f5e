// A microservice of NestJS with its default logger: SIGTERM closes it, and a record of its name blocks it.
require('reflect-metadata')
const { Controller, Module } = require('@nestjs/common')
const { NestFactory } = require('@nestjs/core')
const { EventPattern, Transport } = require('@nestjs/microservices')

const { BOOTSTRAP, GROUP, TOPIC, MEMBER } = process.env

class Orders {
  // As slow processing does, if the record names this member: "NAME UNTIL", in milliseconds.
  async handle(record) {
    const [name, until] = String(record).split(' ')
    if (name === MEMBER) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - Date.now())))
    }
  }
}
const handle = Object.getOwnPropertyDescriptor(Orders.prototype, 'handle')
EventPattern(TOPIC)(Orders.prototype, 'handle', handle)
Controller()(Orders)

class App {}
Module({ controllers: [Orders] })(App)

async function main() {
  const app = await NestFactory.createMicroservice(App, {
    transport: Transport.KAFKA,
    options: {
      client: { clientId: MEMBER, brokers: [BOOTSTRAP] },
      consumer: { groupId: GROUP, sessionTimeout: 6000, heartbeatInterval: 1000 },
      subscribe: { fromBeginning: true },
      postfixId: '',
    },
  })
  app.enableShutdownHooks()
  await app.listen()
}

main()
