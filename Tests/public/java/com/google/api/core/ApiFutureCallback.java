package com.google.api.core;

/** Stands in for the interface of the library api-common. */
public interface ApiFutureCallback<V> {
  void onFailure(Throwable error);

  void onSuccess(V result);
}
