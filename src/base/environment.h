/* SPDX-License-Identifier: MIT */
/*
 * Settings from the environment, unless sn_private_settings() has made them (sennit/foreign.h). An
 * invalid value is reported on stderr with the variable's name, and is an error rather than
 * ignored, because the user who set it had a purpose.
 */
#ifndef SENNIT_BASE_ENVIRONMENT_H
#define SENNIT_BASE_ENVIRONMENT_H

#include <stddef.h>

/* The value of a variable; NULL if it is not set. Settings that are neither a number nor a size may
 * be read by getenv(), which finds only those of the environment. */
const char *sn_environment(const char *name);

/* Returns the variable's number if it is within [low, high], or `otherwise` if the variable is not
 * set. If it is invalid, writes a line on stderr and returns -EINVAL. */
long sn_environment_number(const char *name, long low, long high, long otherwise);

/* Stores a size ("65536", "64K", "1M" or "1G") in *size, and leaves it alone if the variable is not
 * set. Returns 0. If the value is invalid, writes a line on stderr and returns -EINVAL. */
int sn_environment_size(const char *name, size_t low, size_t high, size_t *size);

#endif
