package org.apache.hudi.aws.transaction.lock;

import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.AmazonS3Exception;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import com.amazonaws.services.s3.model.S3Object;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * What the stock StorageBasedLockProvider of the Spark bundle asks of S3. Its own client is in a bundle for AWS alone; this one
 * makes the same conditional puts with the SDK that hadoop-aws brings, under the name that the provider looks for.
 */
public class S3StorageLockClient implements StorageLockClient {
  private final AmazonS3 client;
  private final String bucket;
  private final String key;

  public S3StorageLockClient(String owner, String uri, Properties properties) {
    Pair place = StorageLockClient.parseBucketAndPath(uri);
    this.bucket = (String) place.getLeft();
    this.key = (String) place.getRight();
    String id = System.getenv("AWS_ACCESS_KEY_ID");
    String secret = System.getenv("AWS_SECRET_ACCESS_KEY");
    this.client = (AmazonS3) ((AmazonS3ClientBuilder) ((AmazonS3ClientBuilder) AmazonS3ClientBuilder.standard()
        .withEndpointConfiguration(
            new EndpointConfiguration(System.getenv("AWS_ENDPOINT_URL_S3"), System.getenv("AWS_REGION"))))
        .withCredentials(new AWSStaticCredentialsProvider(new BasicAWSCredentials(id, secret))))
        .enablePathStyleAccess()
        .build();
  }

  public Pair tryUpsertLockFile(StorageLockData data, Option previous) {
    byte[] content = StorageLockFile.toByteArray(data);
    ObjectMetadata metadata = new ObjectMetadata();
    metadata.setContentLength(content.length);
    PutObjectRequest request = new PutObjectRequest(this.bucket, this.key, new ByteArrayInputStream(content), metadata);
    if (previous.isPresent()) {
      request.putCustomRequestHeader("If-Match", "\"" + ((StorageLockFile) previous.get()).getVersionId() + "\"");
    } else {
      request.putCustomRequestHeader("If-None-Match", "*");
    }
    try {
      String version = this.client.putObject(request).getETag();
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, version)));
    } catch (AmazonS3Exception error) {
      LockUpsertResult why =
          error.getStatusCode() == 412 ? LockUpsertResult.ACQUIRED_BY_OTHERS : LockUpsertResult.UNKNOWN_ERROR;
      return Pair.of(why, Option.empty());
    }
  }

  public Pair readCurrentLockFile() {
    try {
      S3Object found = this.client.getObject(this.bucket, this.key);
      try {
        String version = found.getObjectMetadata().getETag();
        StorageLockFile file = StorageLockFile.createFromStream(found.getObjectContent(), version);
        return Pair.of(LockGetResult.SUCCESS, Option.of(file));
      } finally {
        found.close();
      }
    } catch (AmazonS3Exception error) {
      LockGetResult why = error.getStatusCode() == 404 ? LockGetResult.NOT_EXISTS : LockGetResult.UNKNOWN_ERROR;
      return Pair.of(why, Option.empty());
    } catch (IOException error) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  public Option readObject(String path, boolean checksFirst) {
    return Option.empty();
  }

  public boolean writeObject(String path, String content) {
    return false;
  }

  public void close() {
    this.client.shutdown();
  }
}
