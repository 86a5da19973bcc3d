/* SPDX-License-Identifier: MIT */
/*
 * Settings from the environment. An invalid one is reported on stderr, by its name, and is an
 * error, because the user who set it had a purpose.
 */
#ifndef SENNIT_BASE_ENVIRONMENT_H
#define SENNIT_BASE_ENVIRONMENT_H

#include <stddef.h>

/* A number within [low, high], or the default; -EINVAL after a line on stderr. */
long sn_environment_number(const char *name, long low, long high, long otherwise);

/* Stores a size ("65536", "64K", "1M" or "1G") in *size, which is left alone when the variable is
 * not set. Returns 0, or -EINVAL after a line on stderr. */
int sn_environment_size(const char *name, size_t low, size_t high, size_t *size);

#endif
