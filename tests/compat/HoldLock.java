import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Tries to lock a file as Kafka does, says whether it could, and holds the lock until its input ends. */
public class HoldLock {
    public static void main(String[] args) throws Exception {
        Path path = Path.of(args[0]);
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            FileLock lock = channel.tryLock();
            System.out.println(lock == null ? "refused" : "locked");
            while (System.in.read() >= 0) {
            }
        }
    }
}
