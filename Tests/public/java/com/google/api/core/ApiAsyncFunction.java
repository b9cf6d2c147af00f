package com.google.api.core;

/** Stands in for the interface of the library api-common. */
public interface ApiAsyncFunction<I, O> {
  ApiFuture<O> apply(I input) throws Exception;
}
