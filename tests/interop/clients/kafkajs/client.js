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

// Two members of a group; what each has at first, together, and when the first has left.
async function shared(kafka, topic, partitions) {
  const has = [0, 0];
  const join = async (at) => {
    const consumer = kafka.consumer({ groupId: "sharers", heartbeatInterval: 200, maxWaitTimeInMs: 100 });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      has[at] = (payload.memberAssignment[topic] || []).length;
    });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async () => {} });
    return consumer;
  };
  const until = async (...wanted) => {
    while (has.join() !== wanted.join()) await new Promise((resolve) => setTimeout(resolve, 20));
    seen.push([...has]);
  };
  const seen = [];
  const first = await join(0);
  await until(partitions, 0);
  const second = await join(1);
  await until(partitions / 2, partitions / 2);
  await first.disconnect();
  has[0] = 0;
  await until(0, partitions);
  await second.disconnect();
  return seen;
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
  const offsets = {};
  for (const acks of [0, 1, -1]) {
    await admin.createTopics({ topics: [{ topic: `acks${acks}`, numPartitions: 1 }] });
    const sent = await producer.send({ topic: `acks${acks}`, acks, messages: [{ value: "a" }] });
    offsets[acks] = sent.map((one) => one.baseOffset);
  }
  const careful = kafka.producer({ transactionalId: "till", maxInFlightRequests: 1, idempotent: true });
  await careful.connect();
  for (const word of ["committed", "aborted", "last"]) {
    const transaction = await careful.transaction();
    await transaction.send({ topic, messages: [{ value: word }] });
    await (word === "aborted" ? transaction.abort() : transaction.commit());
  }
  const values = await consumed(kafka, topic, "readers", 53);
  const positions = await admin.fetchOffsets({ groupId: "readers", topics: [topic] });
  const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp("timed", 1700000003500);
  await admin.createTopics({ topics: [{ topic: "halves", numPartitions: 4 }] });
  const shares = await shared(kafka, "halves", 4);
  await admin.deleteTopics({ topics: ["halves"] });
  const topics = await admin.listTopics();
  await Promise.all([producer.disconnect(), careful.disconnect(), admin.disconnect()]);
  console.log(JSON.stringify({ values, offsets, positions, topics, offset, shares }));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
