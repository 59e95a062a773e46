// What tests ask of kafkajs: node client.js BROKER TOPIC. Prints what was read, as one line of JSON.
const { Kafka, logLevel, CompressionTypes } = require("kafkajs");

async function consumed(kafka, topic, groupId, count) {
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const values = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer
      .run({
        eachMessage: async ({ message }) => {
          values.push(message.value.toString());
          if (values.length === count) resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return values;
}

async function main(broker, topic) {
  const kafka = new Kafka({ brokers: [broker], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] });
  const producer = kafka.producer();
  await producer.connect();
  const plain = [...Array(50).keys()].map((number) => ({ value: `plain-${number}` }));
  await producer.send({ topic, messages: plain });
  await producer.send({ topic, messages: [{ value: "zipped" }], compression: CompressionTypes.GZIP });
  const careful = kafka.producer({ transactionalId: "till", maxInFlightRequests: 1, idempotent: true });
  await careful.connect();
  for (const word of ["committed", "aborted", "last"]) {
    const transaction = await careful.transaction();
    await transaction.send({ topic, messages: [{ value: word }] });
    await (word === "aborted" ? transaction.abort() : transaction.commit());
  }
  const values = await consumed(kafka, topic, "readers", 53);
  const offsets = await admin.fetchOffsets({ groupId: "readers", topics: [topic] });
  const topics = await admin.listTopics();
  await Promise.all([producer.disconnect(), careful.disconnect(), admin.disconnect()]);
  console.log(JSON.stringify({ values, offsets, topics }));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
