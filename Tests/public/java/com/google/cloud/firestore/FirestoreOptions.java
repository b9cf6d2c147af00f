package com.google.cloud.firestore;

import com.google.auth.Credentials;

/** Stands in for the class of Firestore's client, which the tests of the database only hand on. */
public final class FirestoreOptions {
  public static Builder newBuilder() {
    return new Builder();
  }

  public static final class Builder {
    public Builder setCredentials(Credentials credentials) {
      return this;
    }

    public FirestoreOptions build() {
      return new FirestoreOptions();
    }
  }
}
