/* SPDX-License-Identifier: MIT */
/*
 * When a flow is large enough to be spliced.
 *
 * A flow begins in userspace, where a small one is cheapest. It is spliced after LARGE_READS reads
 * in a row that took LARGE or more each: then the extra cost of a splice over a read is less than
 * that of copying as much. It returns to userspace after SHORT_PASSES passes in a row that moved
 * less than SHORT each, or when splice refuses. Unless it spliced WORTH_IT bytes in between, it
 * then needs twice as many large reads as before to be spliced again, up to MOST_LARGE_READS. So a
 * flow that alternates stops doing so, and stays where it costs no pipe. A flow that had bad luck
 * once in a while is not copied for long.
 *
 * Nothing here acts: the callers report what has happened. A policy belongs to one job.
 *
 * By make bench-relay the bare loop takes 0.22 s per GiB of 4 KiB chunks when it splices, and 0.38
 * when it copies; at 16 KiB 0.16 and 0.43. For messages of 64 bytes the two are alike. Waiting for
 * reads that fill the buffer, 64 KiB, as others do, kept streams in userspace that are forwarded as
 * they arrive. Three of them before the switch cost little, and keep short exchanges from borrowing
 * pipes. SHORT is half of LARGE, so that a stream of pieces of about that size does not alternate.
 * With 64 KiB, streams in chunks of 1 MiB did, and up to four fifths of them were copied.
 *
 * The tail of a chunk arrives alone now and then: of 64 KiB over loopback it is 53 bytes, after one
 * segment with the rest. Other implementations return after two short passes in a row, and also
 * count passes that found nothing. With that rule, 15 to 40 % of the bytes of a stream of 16 KiB to
 * 1 MiB chunks were copied, in stretches of 256 large reads, and it took a fifth more CPU time. A
 * few more short passes cost nothing that could be measured.
 */
#ifndef SENNIT_COPY_COPY_POLICY_H
#define SENNIT_COPY_COPY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SN_POLICY_LARGE ((size_t)4 << 10)
#define SN_POLICY_LARGE_READS 3
#define SN_POLICY_MOST_LARGE_READS 256
#define SN_POLICY_SHORT ((uint64_t)2 << 10)
#define SN_POLICY_SHORT_PASSES 8

/* LARGE_READS reads of a full buffer, 192 KiB, are then a twentieth of what was moved. */
#define SN_POLICY_WORTH_IT ((uint64_t)4 << 20)

struct sn_copy_policy {
	bool splicing;
	uint32_t large;   /* reads in a row that took LARGE or more */
	uint32_t wanted;  /* how many of those it takes */
	uint32_t shorts;  /* passes in a row that were short */
	uint64_t spliced; /* since splicing last began */
};

static inline void sn_policy_init(struct sn_copy_policy *policy)
{
	policy->splicing = false;
	policy->large = 0;
	policy->wanted = SN_POLICY_LARGE_READS;
	policy->shorts = 0;
	policy->spliced = 0;
}

/* A read took n bytes, not 0. Returns whether splicing may begin. */
static inline bool sn_policy_read(struct sn_copy_policy *policy, size_t n)
{
	policy->large = n < SN_POLICY_LARGE ? 0 : policy->large + 1;
	return policy->large >= policy->wanted;
}

static inline void sn_policy_begin(struct sn_copy_policy *policy)
{
	policy->splicing = true;
	policy->shorts = 0;
	policy->spliced = 0;
}

/* A pass moved this much. If it moved nothing, because a wake-up was for bytes that were gone, that
 * says nothing about the flow. Returns whether it should go through userspace. */
static inline bool sn_policy_pass(struct sn_copy_policy *policy, uint64_t moved)
{
	policy->spliced += moved;
	if (moved > 0)
		policy->shorts = moved < SN_POLICY_SHORT ? policy->shorts + 1 : 0;
	return policy->shorts >= SN_POLICY_SHORT_PASSES;
}

/* There was no pipe, which is no reason to change the estimate of the flow, so it soon tries
 * again. */
static inline void sn_policy_pause(struct sn_copy_policy *policy)
{
	policy->splicing = false;
	policy->large = 0;
}

/* The flow is small again, or splice refuses it. */
static inline void sn_policy_end(struct sn_copy_policy *policy)
{
	sn_policy_pause(policy);
	if (policy->spliced >= SN_POLICY_WORTH_IT)
		policy->wanted = SN_POLICY_LARGE_READS;
	else if (policy->wanted < SN_POLICY_MOST_LARGE_READS)
		policy->wanted *= 2;
}

#endif
