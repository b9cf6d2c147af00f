// The client of NATS and its JetStream (Debian package libnats-dev).
#pragma once
#include <nats/nats.h>
