/* SPDX-License-Identifier: MIT */
#include "debug/profile_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arch/compiler.h"
#include "debug/named_file.h"
#include "debug/profile.h"

static const struct kind {
	const char *prefix;
	int (*stop)(int fd);
} kinds[] = {
	{"cpu:", sn_cpu_profile_stop},
	{"waits:", sn_waits_profile_stop},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

static const struct kind *wanted; /* NULL if no profile is wanted */
static bool begun;
static char pattern[SN_FILE_NAME_MAX + 1];

int sn_profile_file_init(void)
{
	/* Ignored in a setuid program, whose caller could otherwise replace any file. */
	const char *text = secure_getenv("SENNIT_PROFILE");

	wanted = NULL;
	begun = false;
	if (!text || !*text)
		return 0;
	for (size_t i = 0; i < KINDS; i++)
		if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			wanted = &kinds[i];
	if (!wanted || !text[strlen(wanted->prefix)]) {
		sn_log("SENNIT_PROFILE=%.100s: expected cpu:FILE or waits:FILE", text);
		return -EINVAL;
	}
	text += strlen(wanted->prefix);
	if (strlen(text) > SN_FILE_NAME_MAX) {
		sn_log("SENNIT_PROFILE is too long; expected a file's name of at most %d "
		       "characters",
		       SN_FILE_NAME_MAX);
		return -EINVAL;
	}
	strcpy(pattern, text);
	return 0;
}

void sn_profile_file_begin(void)
{
	int err;

	if (!wanted)
		return;
	err = wanted->stop == sn_cpu_profile_stop ? sn_cpu_profile_start(0)
						  : sn_waits_profile_start(0);
	begun = err == 0;
	if (err < 0)
		sn_log("cannot begin the profile of SENNIT_PROFILE: %s", strerror(-err));
}

/* Stops the profile that this file has begun. After this, a profile that exists is the
 * program's. */
static int stop(int fd)
{
	begun = false;
	return wanted->stop(fd);
}

void sn_profile_file_end(void)
{
	char path[SN_FILE_PATH_ROOM];
	int err;

	if (!begun)
		return;
	err = sn_named_file_write(pattern, stop, path);
	if (err == 0)
		sn_log("wrote a profile to %s", path);
	else
		sn_log("cannot write a profile to SENNIT_PROFILE: %s", strerror(-err));
	SN_RACE_WINDOW();
	/* If the file could not be opened, stop() was not called. */
	if (begun)
		stop(-1);
}
