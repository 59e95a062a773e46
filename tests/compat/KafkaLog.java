package org.apache.kafka.storage.internals.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.IOException;
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
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.requests.OffsetsForLeaderEpochResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own log and cleaner, by hand: a line of JSON names an act, another gives its result and
 * what state the log is in. Its clock moves only when asked, and its tasks run when that makes them due.
 */
public class KafkaLog {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int FETCH_BYTES = 1 << 20;
    private static final Throttler UNLIMITED = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);

    private final ManualTime time = new ManualTime();
    private ManualScheduler scheduler = new ManualScheduler(time);
    private UnifiedLog log;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaLog one = new KafkaLog();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(JSON.writeValueAsString(one.answer(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            act(asked, answer);
        } catch (Throwable error) {
            answer.put("error", error.getClass().getSimpleName());
            answer.put("errorMessage", String.valueOf(error.getMessage()));
            boolean isOfRecords = error instanceof RecordValidationException;
            answer.put("errorCode", Errors.forException(isOfRecords ? ((RecordValidationException) error).invalidException() : error).code());
            if (!asked.get("act").asText().equals("consume")) {
                answer.remove("result");
            }
        }
        scheduler.runDue(0);
        for (Throwable error : scheduler.errors) {
            answer.withArray("taskErrors").add(String.valueOf(error));
        }
        scheduler.errors.clear();
        if (log != null) {
            state(answer.putObject("state"));
        }
        return answer;
    }

    private void act(JsonNode asked, ObjectNode answer) throws Exception {
        long offset = asked.path("offset").asLong();
        switch (asked.get("act").asText()) {
            case "open" -> open(asked);
            case "configure" -> log.updateConfig(config(asked));
            case "lead" -> report(log.logEndOffset(), log.appendAsLeader(
                records(asked), asked.get("epoch").asInt(), AppendOrigin.valueOf(asked.get("origin").asText()),
                RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) asked.get("transactionVersion").asInt()), answer);
            case "follow" -> report(log.logEndOffset(), log.appendAsFollower(records(asked), asked.get("epoch").asInt()), answer);
            case "update high watermark" -> answer.put("result", log.updateHighWatermark(offset));
            case "raise start" -> answer.put("result",
                log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion));
            case "retain" -> answer.put("result", log.deleteOldSegments());
            case "roll" -> log.roll();
            case "flush" -> log.flush(asked.get("force").asBoolean());
            case "truncate" -> answer.put("result", log.truncateTo(offset));
            case "truncate fully" -> log.truncateFullyAndStartAt(offset, Optional.empty());
            case "assign epoch" -> log.assignEpochStartOffset(asked.get("epoch").asInt(), offset);
            case "read timestamps" -> {
                for (LogSegment segment : log.logSegments()) {
                    segment.largestRecordTimestamp();
                }
            }
            case "expire" -> log.removeExpiredProducers(time.milliseconds());
            case "advance" -> scheduler.runDue(asked.get("ms").asLong());
            case "set time" -> time.wallMs = asked.get("now").asLong();
            case "clean" -> clean(asked, answer.putArray("result"));
            case "end of epoch" -> endOfEpoch(asked.get("epoch").asInt(), answer);
            case "find" -> answer.put("result", find(asked.get("time").asLong()));
            case "read" -> read(asked, answer.putArray("result"));
            case "consume" -> consume(FetchIsolation.valueOf(asked.get("isolation").asText()), answer);
            case "look" -> { }
            case "close" -> closeAfter(log::close);
            case "crash" -> closeAfter(log::closeHandlers);
            default -> throw new IllegalArgumentException(asked.toString());
        }
    }

    private static LogConfig config(JsonNode asked) {
        Map<String, String> settings = new HashMap<>();
        asked.get("config").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        return new LogConfig(settings);
    }

    private static MemoryRecords records(JsonNode asked) throws IOException {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(asked.get("data").binaryValue()));
    }

    private void open(JsonNode asked) throws Exception {
        log = null;
        time.wallMs = asked.get("now").asLong();
        scheduler = new ManualScheduler(time);
        log = UnifiedLog.create(
            new File(asked.get("directory").asText()),
            config(asked),
            asked.get("logStartOffset").asLong(),
            asked.get("recoveryPoint").asLong(),
            scheduler,
            new BrokerTopicStats(),
            time,
            900_000,
            new ProducerStateManagerConfig(asked.get("producerExpirationMs").asInt(), asked.get("verifies").asBoolean()),
            600_000,
            new LogDirFailureChannel(10),
            asked.get("isClean").asBoolean(),
            Optional.empty());
    }

    private void closeAfter(Runnable closing) {
        UnifiedLog closed = log;
        log = null;
        try {
            closing.run();
        } finally {
            closed.producerExpireCheck().cancel(true);
            scheduler.tasks.clear();
        }
    }

    /** Gives offsets and times; of a batch that was in the log already Kafka has the time of the repeated one. */
    private static void report(long endBefore, LogAppendInfo info, ObjectNode answer) {
        answer.putArray("result").add(info.firstOffset()).add(info.lastOffset())
            .add(info.lastOffset() < endBefore ? -1 : info.maxTimestamp())
            .add(info.logAppendTime()).add(info.logStartOffset());
    }

    /** Cleans as a cleaner thread does, unless nothing is dirty; gives the sizes by which it chooses, and where it ended. */
    private void clean(JsonNode asked, ArrayNode result) throws Exception {
        JsonNode checkpoint = asked.get("checkpoint");
        long now = time.milliseconds();
        LogCleanerManager.OffsetsToClean found = LogCleanerManager.cleanableOffsets(
            log, checkpoint.isNull() ? Optional.empty() : Optional.of(checkpoint.asLong()), now);
        LogToClean chosen = new LogToClean(log, found.firstDirtyOffset(), found.firstUncleanableDirtyOffset(), false);
        result.add(chosen.firstDirtyOffset()).add(chosen.cleanBytes()).add(chosen.cleanableBytes());
        if (chosen.cleanableBytes() > 0) {
            OffsetMap map = new SkimpyOffsetMap(asked.get("mapBytes").asInt());
            Cleaner cleaner = new Cleaner(0, map, 1 << 16, 1 << 21, 0.9, UNLIMITED, time, partition -> { });
            result.add(cleaner.doClean(chosen, now).getKey());
        }
    }

    private void endOfEpoch(int epoch, ObjectNode answer) {
        OffsetAndEpoch found = log.endOffsetForEpoch(epoch).orElse(null);
        if (found != null && found.offset() != OffsetsForLeaderEpochResponse.UNDEFINED_EPOCH_OFFSET) {
            answer.putArray("result").add(found.epoch()).add(found.offset());
        }
    }

    private void state(ObjectNode state) {
        state.put("logStartOffset", log.logStartOffset());
        state.put("logEndOffset", log.logEndOffset());
        state.put("highWatermark", log.highWatermark());
        state.put("lastStableOffset", log.lastStableOffset());
        state.put("recoveryPoint", log.recoveryPoint());
        state.put("firstUnstableOffset", log.firstUnstableOffset().orElse(null));
        state.put("topicId", log.topicId().map(Object::toString).orElse(null));
        ArrayNode epochs = state.putArray("epochs");
        for (EpochEntry entry : log.leaderEpochCache().epochEntries()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
        ArrayNode producers = state.putArray("producers");
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
        ArrayNode segments = state.putArray("segments");
        log.logSegments().forEach(segment -> segments.addArray().add(segment.baseOffset()).add(segment.size()));
    }

    private String find(long sought) {
        OffsetResultHolder found = log.fetchOffsetByTimestamp(sought, Optional.empty());
        return found.timestampAndOffsetOpt()
            .map(each -> each.offset + " " + each.timestamp + " " + each.leaderEpoch.filter(epoch -> epoch >= 0).map(Object::toString).orElse("null"))
            .orElse("none");
    }

    private void read(JsonNode asked, ArrayNode result) throws Exception {
        FetchDataInfo fetched = log.read(
            asked.get("offset").asLong(),
            asked.get("maxBytes").asInt(),
            FetchIsolation.valueOf(asked.get("isolation").asText()),
            asked.get("minOneBatch").asBoolean());
        CRC32 crc = new CRC32();
        crc.update(bytesOf(fetched));
        result.add(fetched.records.sizeInBytes()).add(crc.getValue()).add(fetched.firstEntryIncomplete);
        ArrayNode aborted = result.addArray();
        fetched.abortedTransactions.orElse(List.of()).forEach(each -> aborted.addArray().add(each.producerId()).add(each.firstOffset()));
    }

    private static ByteBuffer bytesOf(FetchDataInfo fetched) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(fetched.records.sizeInBytes());
        if (buffer.hasRemaining()) {
            ((FileRecords) fetched.records).readInto(buffer, 0);
        }
        return buffer;
    }

    /** Reads as a consumer does: from the log start on, whole batches, CRCs checked, aborted ones left out. */
    private void consume(FetchIsolation isolation, ObjectNode answer) throws Exception {
        ArrayNode records = answer.putArray("result");
        long position = log.logStartOffset();
        while (true) {
            FetchDataInfo fetched = log.read(position, FETCH_BYTES, isolation, true);
            if (fetched.records.sizeInBytes() == 0) {
                break;
            }
            PriorityQueue<FetchResponseData.AbortedTransaction> aborted =
                new PriorityQueue<>(Comparator.comparingLong(FetchResponseData.AbortedTransaction::firstOffset));
            fetched.abortedTransactions.ifPresent(aborted::addAll);
            long next = take(MemoryRecords.readableRecords(bytesOf(fetched)), position, aborted, isolation, records);
            if (next == position) {
                throw new IllegalStateException("stuck at " + position);
            }
            position = next;
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

    private static class ManualTime implements Time {
        private long wallMs;
        private long elapsedMs;

        @Override
        public long milliseconds() {
            return wallMs;
        }

        @Override
        public long nanoseconds() {
            return elapsedMs * 1_000_000;
        }

        private void moveTo(long elapsed) {
            wallMs += elapsed - elapsedMs;
            elapsedMs = elapsed;
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

    private static class Task implements Comparable<Task> {
        private final Runnable body;
        private final long number;
        private final long periodMs;
        private long dueMs;

        private Task(Runnable body, long number, long dueMs, long periodMs) {
            this.body = body;
            this.number = number;
            this.dueMs = dueMs;
            this.periodMs = periodMs;
        }

        @Override
        public int compareTo(Task other) {
            return dueMs == other.dueMs ? Long.compare(number, other.number) : Long.compare(dueMs, other.dueMs);
        }
    }

    /** Runs tasks on the thread that moves the clock; each sees the time at which it was due. */
    private static class ManualScheduler implements Scheduler {
        private final PriorityQueue<Task> tasks = new PriorityQueue<>();
        private final List<Throwable> errors = new java.util.ArrayList<>();
        private final ManualTime time;
        private long scheduled;

        private ManualScheduler(ManualTime time) {
            this.time = time;
        }

        private void runDue(long ms) {
            long end = time.elapsedMs + ms;
            while (!tasks.isEmpty() && tasks.peek().dueMs <= end) {
                Task task = tasks.poll();
                time.moveTo(Math.max(task.dueMs, time.elapsedMs));
                if (task.periodMs >= 0) {
                    task.dueMs += Math.max(task.periodMs, 1);
                    tasks.add(task);
                }
                try {
                    task.body.run();
                } catch (Throwable error) {
                    errors.add(error);
                }
            }
            time.moveTo(end);
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable body, long delayMs, long periodMs) {
            Task task = new Task(body, scheduled++, time.elapsedMs + Math.max(delayMs, 0), periodMs);
            tasks.add(task);
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                KafkaLog.class.getClassLoader(),
                new Class<?>[] {ScheduledFuture.class},
                (proxy, method, words) -> method.getName().equals("cancel") && tasks.remove(task));
        }

        @Override
        public void startup() {}

        @Override
        public void shutdown() {}

        @Override
        public void resizeThreadPool(int newSize) {}
    }
}
