import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * S3A of Hadoop: runs the operations that come on standard input.
 *
 * <p>A line is {@code FLAVOUR OPERATION KEY [FILE]}; the flavour is always {@code s3a} here. Its
 * answer is one line of fields, with tabs between them: {@code ok} and what was seen, or {@code
 * error} and why.
 *
 * <p>The endpoint is S3_ENDPOINT and the bucket is S3_BUCKET; keys and region are where the AWS SDK
 * looks for them, too.
 */
public final class HadoopClient {
  /** The least that S3 takes, so that a file of 20 MB has four parts. */
  private static final String PART_BYTES = "5M";
  /** Reads at positions all over a file, of up to so many bytes, as of a table's columns. */
  private static final int READS = 12, READ_BYTES_MAX = 300_000;

  private final Configuration settings = new Configuration();
  private final Path root = new Path("s3a://" + System.getenv("S3_BUCKET") + "/");

  private HadoopClient() {
    settings.set("fs.s3a.endpoint", System.getenv("S3_ENDPOINT"));
    settings.set("fs.s3a.endpoint.region", System.getenv("AWS_REGION"));
    settings.set("fs.s3a.path.style.access", "true");
    settings.set("fs.s3a.access.key", System.getenv("AWS_ACCESS_KEY_ID"));
    settings.set("fs.s3a.secret.key", System.getenv("AWS_SECRET_ACCESS_KEY"));
    settings.set("fs.s3a.multipart.size", PART_BYTES);
    settings.set("fs.s3a.multipart.threshold", PART_BYTES);
    settings.set("hadoop.tmp.dir", System.getProperty("java.io.tmpdir"));
  }

  public static void main(String[] arguments) throws IOException {
    HadoopClient client = new HadoopClient();
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = "ok\t" + client.run(line.split(" "));
      } catch (Exception | LinkageError error) {
        answer = "error\t" + error.toString().replaceAll("\\s+", " ");
      }
      System.out.println(answer);
    }
    // The file system has threads of its own, which would go on.
    System.exit(0);
  }

  /** With a file system of its own, for that keeps what it read in memory, from 3.4.3 on. */
  private String run(String[] words) throws Exception {
    Path path = new Path(root, words[2]);
    try (FileSystem files = FileSystem.newInstance(root.toUri(), settings)) {
      return switch (words[1]) {
        case "get" -> readAll(files, path);
        case "positions" -> readPositions(files, path);
        case "vectored" -> readVectored(files, path);
        case "head" -> describe(files.getFileStatus(path));
        case "list" -> list(files, path.getParent());
        case "put", "upload" -> create(files, path, java.nio.file.Path.of(words[3]));
        case "rename" -> changed(files.rename(path, path.suffix("-renamed")));
        case "delete" -> changed(files.delete(path, false));
        default -> throw new IllegalArgumentException("unknown operation: " + words[1]);
      };
    }
  }

  // --- reading

  private static String readAll(FileSystem files, Path path) throws Exception {
    try (FSDataInputStream in = files.open(path)) {
      return digest(in.readAllBytes());
    }
  }

  /** As a reader of columns does: from the end, then back and forth. */
  private static String readPositions(FileSystem files, Path path) throws Exception {
    MessageDigest seen = MessageDigest.getInstance("SHA-256");
    try (FSDataInputStream in = files.open(path)) {
      for (FileRange range : ranges(files.getFileStatus(path).getLen())) {
        byte[] bytes = new byte[range.getLength()];
        in.readFully(range.getOffset(), bytes);
        seen.update(bytes);
      }
    }
    return HexFormat.of().formatHex(seen.digest());
  }

  /** The same ranges, asked for at once. */
  private static String readVectored(FileSystem files, Path path) throws Exception {
    MessageDigest seen = MessageDigest.getInstance("SHA-256");
    try (FSDataInputStream in = files.open(path)) {
      List<FileRange> ranges = ranges(files.getFileStatus(path).getLen());
      in.readVectored(ranges, ByteBuffer::allocate);
      for (FileRange range : ranges) {
        seen.update(range.getData().get());
      }
    }
    return HexFormat.of().formatHex(seen.digest());
  }

  /** The same ones each time: one in each equal share of the file, for they may not overlap. */
  private static List<FileRange> ranges(long fileBytes) {
    Random chance = new Random(1);
    long share = fileBytes / READS;
    List<FileRange> ranges = new ArrayList<>();
    for (int n = READS - 1; 0 <= n; n--) {
      int length = 1 + chance.nextInt((int) Math.min(READ_BYTES_MAX, share / 2));
      ranges.add(FileRange.createFileRange(n * share + chance.nextInt((int) share / 2), length));
    }
    return ranges;
  }

  private static String list(FileSystem files, Path folder) throws IOException {
    return Arrays.stream(files.listStatus(folder))
        .map(HadoopClient::describe)
        .collect(Collectors.joining(", "));
  }

  private static String describe(FileStatus status) {
    return status.getPath().getName() + " " + status.getLen() + " " + status.getModificationTime();
  }

  // --- writing and removing

  private static String create(FileSystem files, Path path, java.nio.file.Path file)
      throws IOException {
    try (FSDataOutputStream out = files.create(path, true)) {
      Files.copy(file, out);
    }
    return "";
  }

  /** Hadoop says with a `false` that it did nothing. */
  private static String changed(boolean isDone) throws IOException {
    if (!isDone) {
      throw new IOException("refused");
    }
    return "";
  }

  private static String digest(byte[] bytes) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }
}
