package com.google.api.core;

/** Stands in for the interface of the library api-common. */
public interface ApiFunction<F, T> {
  T apply(F input);
}
