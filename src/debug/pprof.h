/* SPDX-License-Identifier: MIT */
/*
 * A profile in pprof's format: profile.proto, uncompressed.
 *
 * Contract. The caller begins, passes each sample, and ends. Strings, functions and locations are
 * sent when a sample first refers to them. Protobuf allows this interleaving, and only the order of
 * the strings matters. Functions have their linker names, which pprof demangles. A frame's address
 * is one less than the return address, so that it lies in the call.
 *
 * The memory is a mapping that exists while the profile is written; nothing is taken from the heap.
 * When one of the tables is full, which takes about 100,000 different entries, strings become empty
 * and frames are left out. After an error of write() nothing more is written. All state is the
 * caller's.
 */
#ifndef SENNIT_DEBUG_PPROF_H
#define SENNIT_DEBUG_PPROF_H

#include <stddef.h>
#include <stdint.h>

#include "debug/modules.h"
#include "debug/samples.h"

/* A kind of value and its unit, such as "cpu" and "nanoseconds". */
struct sn_pprof_type {
	const char *type, *unit;
};

struct sn_pprof_attr {
	const struct sn_pprof_type *types; /* an array of `count`, at most SN_SAMPLE_VALUES */
	int count;
	int main; /* the index of the type that viewers show first */
	struct sn_pprof_type period_type;
	int64_t period;      /* 0 if there is none */
	int64_t time;        /* when the profile began, as of sn_walltime() */
	int64_t duration_ns; /* 0 if it is not known */
};

struct sn_pprof;

/* Begins a profile. Returns NULL if there is no memory. */
struct sn_pprof *sn_pprof_begin(int fd, const struct sn_modules *modules,
				const struct sn_pprof_attr *attr);
void sn_pprof_sample(struct sn_pprof *pprof, const struct sn_sample_key *key,
		     const int64_t *values);
/* Adds a line that viewers show with the profile. */
void sn_pprof_comment(struct sn_pprof *pprof, const char *text);
/* Ends the profile and frees the memory. Returns 0, or the error of write(). */
int sn_pprof_end(struct sn_pprof *pprof);

#endif
