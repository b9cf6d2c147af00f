package com.google.firebase.internal;

import com.google.api.client.http.HttpTransport;
import com.google.api.client.http.LowLevelHttpRequest;
import com.google.api.client.http.javanet.NetHttpTransport;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;

/**
 * Stands in for the transport over the library httpclient5: requests go by the JDK's client, and those for the production host of a
 * database to the emulator.
 */
public final class ApacheHttp2Transport extends HttpTransport {
  private final NetHttpTransport jdk = new NetHttpTransport();

  @Override
  protected LowLevelHttpRequest buildRequest(String method, String url) throws IOException {
    try {
      Method build = NetHttpTransport.class.getDeclaredMethod("buildRequest", String.class, String.class);
      build.setAccessible(true);
      return (LowLevelHttpRequest) build.invoke(jdk, method, local(url));
    } catch (InvocationTargetException error) {
      throw new IOException(error.getCause());
    } catch (ReflectiveOperationException error) {
      throw new IOException(error);
    }
  }

  private static String local(String url) {
    String emulator = System.getenv("FIREBASE_DATABASE_EMULATOR_HOST");
    URI uri = URI.create(url);
    if (emulator == null || !uri.getHost().endsWith(".firebaseio.com")) {
      return url;
    }
    String query = uri.getRawQuery() == null ? "" : uri.getRawQuery() + "&";
    return "http://" + emulator + uri.getRawPath() + "?" + query + "ns=" + uri.getHost().replaceFirst("\\..*", "");
  }
}
