/* SPDX-License-Identifier: MIT */
#include "base/environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/compiler.h"

long sn_environment_number(const char *name, long low, long high, long otherwise)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || value < low || value > high) {
		sn_log("%s=%s: expected a number from %ld to %ld", name, text, low, high);
		return -EINVAL;
	}
	return value;
}

static size_t unit_of(const char *suffix)
{
	static const char letters[] = "KMG";
	const char *at = *suffix ? strchr(letters, toupper((unsigned char)*suffix)) : NULL;

	if (!*suffix)
		return 1;
	return !at || suffix[1] ? 0 : (size_t)1 << (10 * (at - letters + 1));
}

int sn_environment_size(const char *name, size_t low, size_t high, size_t *size)
{
	const char *text = getenv(name);
	unsigned long long value;
	size_t unit;
	char *end;

	if (!text || !*text)
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	unit = unit_of(end);
	/* strtoull() also accepts a sign and leading spaces. */
	if (errno || !isdigit((unsigned char)*text) || !unit || value > high / unit ||
	    value * unit < low) {
		sn_log("%s=%s: expected a size from %zuK to %zuK, in bytes, or as in 256K or 1M",
		       name, text, low >> 10, high >> 10);
		return -EINVAL;
	}
	*size = (size_t)value * unit;
	return 0;
}
