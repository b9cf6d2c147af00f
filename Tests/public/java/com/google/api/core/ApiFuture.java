package com.google.api.core;

import java.util.concurrent.Executor;
import java.util.concurrent.Future;

/** Stands in for the interface of the library api-common. */
public interface ApiFuture<V> extends Future<V> {
  void addListener(Runnable listener, Executor executor);
}
