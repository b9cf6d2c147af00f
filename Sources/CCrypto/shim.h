#pragma once
#include <openssl/sha.h>
#include <openssl/rand.h>
#include <openssl/crypto.h>
