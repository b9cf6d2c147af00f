package com.google.api.core;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** Stands in for the class of the library api-common. */
public class SettableApiFuture<V> extends CompletableFuture<V> implements ApiFuture<V> {
  public static <V> SettableApiFuture<V> create() {
    return new SettableApiFuture<>();
  }

  public boolean set(V value) {
    return complete(value);
  }

  public boolean setException(Throwable error) {
    return completeExceptionally(error);
  }

  @Override
  public void addListener(Runnable listener, Executor executor) {
    whenCompleteAsync((value, error) -> listener.run(), executor);
  }
}
