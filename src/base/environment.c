/* SPDX-License-Identifier: MIT */
#include "base/environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/foreign.h>

#include "arch/compiler.h"

/* Written while there is no runtime. Release and acquire, because the thread that starts the
 * runtime need not be the one that has made them. */
static const struct sn_private_setting *made;

void sn_private_settings(const struct sn_private_setting *settings)
{
	__atomic_store_n(&made, settings, __ATOMIC_RELEASE);
}

const char *sn_environment(const char *name)
{
	const struct sn_private_setting *setting = __atomic_load_n(&made, __ATOMIC_ACQUIRE);

	for (; setting && setting->name; setting++)
		if (strcmp(setting->name, name) == 0)
			return setting->value;
	return getenv(name);
}

long sn_environment_number(const char *name, long low, long high, long otherwise)
{
	const char *text = sn_environment(name);
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
	const char *text = sn_environment(name);
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
