import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.SdkHttpRequest;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.CompletedMultipartUpload;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.HeadObjectRequest;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.awscore.presigner.PresignedRequest;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;
import software.amazon.awssdk.transfer.s3.S3TransferManager;

/**
 * The AWS SDK for Java v2: runs the operations that come on standard input.
 *
 * <p>A line is {@code FLAVOUR OPERATION KEY [FILE]}. Its answer is one line of fields, with tabs
 * between them: {@code ok}, what was seen and, of a presigned URL, its query; or {@code error} and
 * why.
 *
 * <p>The endpoint is S3_ENDPOINT and the bucket is S3_BUCKET. All else is the SDK's default, which
 * takes its keys and its region from the environment as well.
 */
public final class JavaClient {
  private static final String BUCKET = System.getenv("S3_BUCKET");
  private static final URI ENDPOINT = URI.create(System.getenv("S3_ENDPOINT"));
  /** Of an upload by hand: the least that S3 takes, so that a file of 20 MB has four parts. */
  private static final int PART_BYTES = 5 << 20;
  /** What the operation `range` reads: more than one block of the cache, and off their borders. */
  private static final String RANGE = "bytes=1000-2000000";

  private static final String SYNC = "sync", ASYNC = "async", TRANSFER = "transfer";
  private static final String CRT = "crt", CRT_TRANSFER = "crt-transfer";

  private final S3Client sync =
      S3Client.builder().endpointOverride(ENDPOINT).forcePathStyle(true).build();
  private final S3AsyncClient netty =
      S3AsyncClient.builder().endpointOverride(ENDPOINT).forcePathStyle(true).build();
  private final S3AsyncClient multipart =
      S3AsyncClient.builder()
          .endpointOverride(ENDPOINT)
          .forcePathStyle(true)
          .multipartEnabled(true)
          .build();
  private final S3AsyncClient crt =
      S3AsyncClient.crtBuilder().endpointOverride(ENDPOINT).forcePathStyle(true).build();
  private final Map<String, S3AsyncClient> asyncClients =
      Map.of(ASYNC, netty, TRANSFER, multipart, CRT, crt, CRT_TRANSFER, crt);
  private final Map<String, S3TransferManager> managers =
      Map.of(
          TRANSFER, S3TransferManager.builder().s3Client(multipart).build(),
          CRT_TRANSFER, S3TransferManager.builder().s3Client(crt).build());
  private final S3Presigner presigner =
      S3Presigner.builder()
          .endpointOverride(ENDPOINT)
          .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build())
          .build();
  private final HttpClient http = HttpClient.newHttpClient();

  public static void main(String[] arguments) throws IOException {
    JavaClient client = new JavaClient();
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
    // The clients have threads of their own, which would go on.
    System.exit(0);
  }

  private String run(String[] words) throws Exception {
    String flavour = words[0], operation = words[1], key = words[2];
    Path file = 3 < words.length ? Path.of(words[3]) : null;
    return switch (operation) {
      case "get" -> managers.containsKey(flavour) ? download(flavour, key) : get(flavour, key, null);
      case "range" -> get(flavour, key, RANGE);
      case "head" -> head(flavour, key);
      case "put" -> put(flavour, key, file);
      case "upload" -> upload(flavour, key, file);
      case "presigned-get" -> presignedGet(key);
      case "presigned-put" -> presignedPut(key, file);
      default -> throw new IllegalArgumentException("unknown operation: " + operation);
    };
  }

  // --- reading

  private String get(String flavour, String key, String range) throws Exception {
    GetObjectRequest wanted =
        GetObjectRequest.builder().bucket(BUCKET).key(key).range(range).build();
    byte[] bytes =
        flavour.equals(SYNC)
            ? sync.getObject(wanted).readAllBytes()
            : asyncClients
                .get(flavour)
                .getObject(wanted, AsyncResponseTransformer.toBytes())
                .join()
                .asByteArrayUnsafe();
    return digest(bytes);
  }

  private String download(String flavour, String key) throws Exception {
    Path file = Files.createTempFile("download", null);
    try {
      managers
          .get(flavour)
          .downloadFile(
              download ->
                  download.destination(file).getObjectRequest(get -> get.bucket(BUCKET).key(key)))
          .completionFuture()
          .join();
      return digest(Files.readAllBytes(file));
    } finally {
      Files.delete(file);
    }
  }

  private String head(String flavour, String key) {
    HeadObjectRequest wanted = HeadObjectRequest.builder().bucket(BUCKET).key(key).build();
    HeadObjectResponse head =
        flavour.equals(SYNC)
            ? sync.headObject(wanted)
            : asyncClients.get(flavour).headObject(wanted).join();
    return String.join(
        " ",
        String.valueOf(head.contentLength()),
        head.eTag(),
        head.contentType(),
        String.valueOf(head.lastModified()),
        head.metadata().toString());
  }

  // --- writing

  private String put(String flavour, String key, Path file) {
    PutObjectRequest wanted = PutObjectRequest.builder().bucket(BUCKET).key(key).build();
    if (flavour.equals(SYNC)) {
      sync.putObject(wanted, RequestBody.fromFile(file));
    } else if (managers.containsKey(flavour)) {
      uploadFile(flavour, key, file);
    } else {
      asyncClients.get(flavour).putObject(wanted, AsyncRequestBody.fromFile(file)).join();
    }
    return "";
  }

  /** In parts: by hand where the client has nothing that cuts a file. */
  private String upload(String flavour, String key, Path file) throws IOException {
    switch (flavour) {
      case SYNC -> uploadSync(key, Files.readAllBytes(file));
      case ASYNC -> uploadAsync(key, Files.readAllBytes(file));
      case CRT -> put(flavour, key, file);
      default -> uploadFile(flavour, key, file);
    }
    return "";
  }

  private void uploadSync(String key, byte[] bytes) {
    String id = sync.createMultipartUpload(each -> each.bucket(BUCKET).key(key)).uploadId();
    List<CompletedPart> parts = new ArrayList<>();
    for (byte[] part : cut(bytes)) {
      int number = parts.size() + 1;
      String etag =
          sync.uploadPart(
                  each -> each.bucket(BUCKET).key(key).uploadId(id).partNumber(number),
                  RequestBody.fromBytes(part))
              .eTag();
      parts.add(CompletedPart.builder().partNumber(number).eTag(etag).build());
    }
    CompletedMultipartUpload all = CompletedMultipartUpload.builder().parts(parts).build();
    sync.completeMultipartUpload(
        each -> each.bucket(BUCKET).key(key).uploadId(id).multipartUpload(all));
  }

  /** All parts at once. */
  private void uploadAsync(String key, byte[] bytes) {
    String id =
        netty.createMultipartUpload(each -> each.bucket(BUCKET).key(key)).join().uploadId();
    List<CompletableFuture<CompletedPart>> underway = new ArrayList<>();
    for (byte[] part : cut(bytes)) {
      int number = underway.size() + 1;
      underway.add(
          netty
              .uploadPart(
                  each -> each.bucket(BUCKET).key(key).uploadId(id).partNumber(number),
                  AsyncRequestBody.fromBytes(part))
              .thenApply(
                  done -> CompletedPart.builder().partNumber(number).eTag(done.eTag()).build()));
    }
    List<CompletedPart> parts = underway.stream().map(CompletableFuture::join).toList();
    CompletedMultipartUpload all = CompletedMultipartUpload.builder().parts(parts).build();
    netty
        .completeMultipartUpload(
            each -> each.bucket(BUCKET).key(key).uploadId(id).multipartUpload(all))
        .join();
  }

  private static List<byte[]> cut(byte[] bytes) {
    List<byte[]> parts = new ArrayList<>();
    for (int start = 0; start < bytes.length; start += PART_BYTES) {
      parts.add(Arrays.copyOfRange(bytes, start, Math.min(start + PART_BYTES, bytes.length)));
    }
    return parts;
  }

  private void uploadFile(String flavour, String key, Path file) {
    managers
        .get(flavour)
        .uploadFile(
            upload -> upload.source(file).putObjectRequest(put -> put.bucket(BUCKET).key(key)))
        .completionFuture()
        .join();
  }

  // --- presigned URLs

  private String presignedGet(String key) throws Exception {
    PresignedRequest signed =
        presigner.presignGetObject(
            each ->
                each.signatureDuration(Duration.ofMinutes(10))
                    .getObjectRequest(get -> get.bucket(BUCKET).key(key)));
    HttpResponse<byte[]> answer = send(signed, HttpRequest.BodyPublishers.noBody());
    return digest(answer.body()) + "\t" + signed.url().getQuery();
  }

  private String presignedPut(String key, Path file) throws Exception {
    PresignedRequest signed =
        presigner.presignPutObject(
            each ->
                each.signatureDuration(Duration.ofMinutes(10))
                    .putObjectRequest(put -> put.bucket(BUCKET).key(key)));
    send(signed, HttpRequest.BodyPublishers.ofFile(file));
    return "\t" + signed.url().getQuery();
  }

  private HttpResponse<byte[]> send(PresignedRequest signed, HttpRequest.BodyPublisher body)
      throws Exception {
    SdkHttpRequest wanted = signed.httpRequest();
    HttpRequest.Builder request =
        HttpRequest.newBuilder(signed.url().toURI()).method(wanted.method().name(), body);
    signed.signedHeaders().forEach(
        (name, values) -> {
          // The HTTP client says it by itself, and lets nobody else say it.
          if (!name.equalsIgnoreCase("host")) {
            values.forEach(value -> request.header(name, value));
          }
        });
    HttpResponse<byte[]> answer =
        http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
    if (answer.statusCode() != 200) {
      String why = new String(answer.body(), StandardCharsets.UTF_8);
      throw new IOException(answer.statusCode() + " " + why);
    }
    return answer;
  }

  private static String digest(byte[] bytes) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }
}
