package com.google.api.core;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;

/** Stands in for the class of the library api-common. */
public final class ApiFutures {
  private ApiFutures() {}

  public static <V> void addCallback(ApiFuture<V> future, ApiFutureCallback<? super V> callback, Executor executor) {
    future.addListener(() -> {
      try {
        callback.onSuccess(future.get());
      } catch (ExecutionException error) {
        callback.onFailure(error.getCause());
      } catch (InterruptedException | RuntimeException error) {
        callback.onFailure(error);
      }
    }, executor);
  }

  public static <V, X> ApiFuture<X> transform(ApiFuture<? extends V> input, ApiFunction<? super V, ? extends X> function, Executor executor) {
    SettableApiFuture<X> result = SettableApiFuture.create();
    addCallback(input, new ApiFutureCallback<V>() {
      @Override
      public void onFailure(Throwable error) {
        result.setException(error);
      }

      @Override
      public void onSuccess(V value) {
        try {
          result.set(function.apply(value));
        } catch (RuntimeException error) {
          result.setException(error);
        }
      }
    }, executor);
    return result;
  }

  public static <I, O> ApiFuture<O> transformAsync(ApiFuture<I> input, ApiAsyncFunction<I, O> function, Executor executor) {
    SettableApiFuture<O> result = SettableApiFuture.create();
    addCallback(input, new ApiFutureCallback<I>() {
      @Override
      public void onFailure(Throwable error) {
        result.setException(error);
      }

      @Override
      public void onSuccess(I value) {
        try {
          addCallback(function.apply(value), new ApiFutureCallback<O>() {
            @Override
            public void onFailure(Throwable error) {
              result.setException(error);
            }

            @Override
            public void onSuccess(O output) {
              result.set(output);
            }
          }, executor);
        } catch (Exception error) {
          result.setException(error);
        }
      }
    }, executor);
    return result;
  }
}
