import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.OffsetResultHolder;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Opens directories with Kafka's own log, as a broker's start does: a JSON line asks, another answers. */
public class LogOpener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int FETCH_BYTES = 1 << 20;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                open(JSON.readTree(line), answer);
            } catch (Throwable error) {
                tell(answer, "error", error);
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static void tell(ObjectNode answer, String name, Throwable error) {
        answer.put(name, error.getClass().getSimpleName());
        answer.put(name + "Message", String.valueOf(error.getMessage()));
    }

    private static void open(JsonNode asked, ObjectNode answer) throws Exception {
        Map<String, String> settings = new HashMap<>();
        asked.get("config").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        UnifiedLog log = UnifiedLog.create(
            new File(asked.get("directory").asText()),
            new LogConfig(settings),
            asked.get("logStartOffset").asLong(),
            asked.get("recoveryPoint").asLong(),
            new AtOnce(),
            new BrokerTopicStats(),
            new FixedTime(asked.get("now").asLong()),
            900_000,
            new ProducerStateManagerConfig(86_400_000, true),
            600_000,
            new LogDirFailureChannel(10),
            asked.get("isClean").asBoolean(),
            Optional.empty());
        answer.put("logStartOffset", log.logStartOffset());
        answer.put("recoveryPoint", log.recoveryPoint());
        answer.put("logEndOffset", log.logEndOffset());
        answer.put("topicId", log.topicId().map(Object::toString).orElse(null));
        log.updateHighWatermark(asked.get("highWatermark").asLong());
        answer.put("checkpointedHighWatermark", log.highWatermark());
        answer.put("checkpointedStableOffset", log.lastStableOffset());
        log.updateHighWatermark(log.logEndOffset());
        answer.put("highWatermark", log.highWatermark());
        answer.put("lastStableOffset", log.lastStableOffset());
        state(log, answer);
        consume(log, FetchIsolation.HIGH_WATERMARK, answer.putObject("uncommitted"));
        consume(log, FetchIsolation.TXN_COMMITTED, answer.putObject("committed"));
        ArrayNode found = answer.putArray("found");
        for (JsonNode time : asked.get("times")) {
            found.add(find(log, time.asLong()));
        }
        ArrayNode appended = answer.putArray("appended");
        for (JsonNode batch : asked.get("append")) {
            appended.add(append(log, batch.binaryValue()));
        }
        try {
            if (asked.get("closes").asBoolean()) {
                log.flush(true);
                log.close();
            } else {
                log.closeHandlers();
            }
        } catch (Throwable error) {
            tell(answer, "closeError", error);
        }
    }

    private static String append(UnifiedLog log, byte[] batch) {
        try {
            int epoch = log.latestEpoch().orElse(0);
            return String.valueOf(log.appendAsLeader(MemoryRecords.readableRecords(ByteBuffer.wrap(batch)), epoch).lastOffset());
        } catch (Throwable error) {
            return error.getClass().getSimpleName();
        }
    }

    private static void state(UnifiedLog log, ObjectNode answer) {
        ArrayNode epochs = answer.putArray("epochs");
        LeaderEpochFileCache cache = log.leaderEpochCache();
        for (EpochEntry entry : cache.epochEntries()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
        ArrayNode producers = answer.putArray("producers");
        log.producerStateManager().activeProducers().values().stream()
            .sorted(Comparator.comparingLong(ProducerStateEntry::producerId))
            .forEach(entry -> {
                ArrayNode row = producers.addArray();
                row.add(entry.producerId()).add(entry.producerEpoch()).add(entry.coordinatorEpoch());
                row.add(entry.lastTimestamp()).add(entry.currentTxnFirstOffset().orElse(-1));
                ArrayNode batches = row.addArray();
                entry.batchMetadata().forEach(batch -> batches.addArray()
                    .add(batch.firstSeq()).add(batch.lastSeq()).add(batch.firstOffset()).add(batch.lastOffset()).add(batch.timestamp()));
            });
        ArrayNode segments = answer.putArray("segments");
        log.logSegments().forEach(segment -> segments.addArray().add(segment.baseOffset()).add(segment.size()));
    }

    private static String find(UnifiedLog log, long time) {
        try {
            OffsetResultHolder found = log.fetchOffsetByTimestamp(time, Optional.empty());
            return found.timestampAndOffsetOpt()
                .map(each -> each.offset + " " + each.timestamp + " " + each.leaderEpoch.filter(epoch -> epoch >= 0).map(Object::toString).orElse("null"))
                .orElse("none");
        } catch (Throwable error) {
            return "error " + error.getClass().getSimpleName();
        }
    }

    /** Reads as a consumer does: from the log start on, whole batches, CRCs checked, aborted ones left out. */
    private static void consume(UnifiedLog log, FetchIsolation isolation, ObjectNode answer) {
        ArrayNode records = answer.putArray("records");
        long position = log.logStartOffset();
        try {
            while (true) {
                FetchDataInfo fetched = log.read(position, FETCH_BYTES, isolation, true);
                int size = fetched.records.sizeInBytes();
                if (size == 0) {
                    break;
                }
                ByteBuffer buffer = ByteBuffer.allocate(size);
                ((FileRecords) fetched.records).readInto(buffer, 0);
                PriorityQueue<FetchResponseData.AbortedTransaction> aborted =
                    new PriorityQueue<>(Comparator.comparingLong(FetchResponseData.AbortedTransaction::firstOffset));
                fetched.abortedTransactions.ifPresent(aborted::addAll);
                long next = take(MemoryRecords.readableRecords(buffer), position, aborted, isolation, records);
                if (next == position) {
                    answer.put("error", "stuck");
                    break;
                }
                position = next;
            }
        } catch (Throwable error) {
            tell(answer, "error", error);
        }
    }

    private static long take(
            Records fetched,
            long from,
            PriorityQueue<FetchResponseData.AbortedTransaction> aborted,
            FetchIsolation isolation,
            ArrayNode records) {
        long position = from;
        Set<Long> abortedIds = new HashSet<>();
        for (RecordBatch batch : fetched.batches()) {
            batch.ensureValid();
            boolean isAborted = false;
            if (isolation == FetchIsolation.TXN_COMMITTED && batch.hasProducerId()) {
                while (!aborted.isEmpty() && aborted.peek().firstOffset() <= batch.lastOffset()) {
                    abortedIds.add(aborted.poll().producerId());
                }
                if (batch.isControlBatch() && isAbort(batch)) {
                    abortedIds.remove(batch.producerId());
                }
                isAborted = batch.isTransactional() && abortedIds.contains(batch.producerId());
            }
            if (!isAborted && !batch.isControlBatch()) {
                for (Record record : batch) {
                    if (record.offset() >= position) {
                        records.addArray().add(record.offset()).add(checksum(batch, record));
                    }
                }
            }
            position = Math.max(position, batch.nextOffset());
        }
        return position;
    }

    private static boolean isAbort(RecordBatch batch) {
        Iterator<Record> iterator = batch.iterator();
        return iterator.hasNext() && ControlRecordType.parse(iterator.next().key()) == ControlRecordType.ABORT;
    }

    private static long checksum(RecordBatch batch, Record record) {
        CRC32 crc = new CRC32();
        number(crc, record.timestamp());
        number(crc, batch.timestampType().id);
        number(crc, Math.max(batch.partitionLeaderEpoch(), -1));
        bytes(crc, record.key());
        bytes(crc, record.value());
        for (Header header : record.headers()) {
            bytes(crc, ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)));
            bytes(crc, header.value() == null ? null : ByteBuffer.wrap(header.value()));
        }
        return crc.getValue();
    }

    private static void number(CRC32 crc, long value) {
        crc.update(ByteBuffer.allocate(8).putLong(0, value));
    }

    private static void bytes(CRC32 crc, ByteBuffer data) {
        number(crc, data == null ? -1 : data.remaining());
        if (data != null) {
            crc.update(data.duplicate());
        }
    }

    /** Runs what is due at once, and nothing of what is due later: files that wait for deletion stay. */
    private static class AtOnce implements Scheduler {
        @Override
        public void startup() {}

        @Override
        public void shutdown() {}

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs == 0 && periodMs < 0) {
                task.run();
            }
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                LogOpener.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class}, (proxy, method, words) -> false);
        }

        @Override
        public void resizeThreadPool(int newSize) {}
    }

    private record FixedTime(long milliseconds) implements Time {
        @Override
        public long nanoseconds() {
            return System.nanoTime();
        }

        @Override
        public void sleep(long ms) {
            throw new IllegalStateException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new IllegalStateException();
        }
    }
}
