/* SPDX-License-Identifier: MIT */
/*
 * A profile in pprof's format: profile.proto, uncompressed.
 *
 * Contract. The caller begins, gives each sample, and ends. What samples refer to (strings,
 * functions, locations) is sent when it is first met; protobuf puts together what comes in between,
 * and only the strings have an order. Functions have their linker names, which pprof demangles. A
 * frame's address is one before a return address, so that it lies in the call.
 *
 * Its memory is a mapping for the time of the writing; nothing is from the heap. Where one of its
 * tables is full, strings become empty and frames are left out, which 100,000 different ones fill.
 * After an error of write() nothing more is written.
 */
#ifndef SENNIT_DEBUG_PPROF_H
#define SENNIT_DEBUG_PPROF_H

#include <stddef.h>
#include <stdint.h>

#include "debug/modules.h"
#include "debug/samples.h"

/* "cpu", "nanoseconds" */
struct sn_pprof_type {
	const char *type, *unit;
};

struct sn_pprof_attr {
	const struct sn_pprof_type *types; /* count of them, at most SN_SAMPLE_VALUES */
	int count;
	int main; /* which of them viewers show at first */
	struct sn_pprof_type period_type;
	int64_t period;      /* 0: none */
	int64_t time;        /* when it began, as sn_walltime() */
	int64_t duration_ns; /* 0: none */
};

struct sn_pprof;

/* NULL: no memory. */
struct sn_pprof *sn_pprof_begin(int fd, const struct sn_modules *modules,
				const struct sn_pprof_attr *attr);
void sn_pprof_sample(struct sn_pprof *pprof, const struct sn_sample_key *key,
		     const int64_t *values);
/* A line that viewers show with the profile. */
void sn_pprof_comment(struct sn_pprof *pprof, const char *text);
/* Returns 0, or the error. Frees it. */
int sn_pprof_end(struct sn_pprof *pprof);

#endif
