/* SPDX-License-Identifier: MIT */
/*
 * When a flow is large enough to be spliced.
 *
 * A flow begins in userspace, where a small one is cheapest. It is spliced after LARGE_READS reads
 * in a row that took LARGE or more each: then the extra cost of a splice over a read is less than
 * that of copying as much. It returns to userspace after SHORT_PASSES passes in a row that moved
 * less than SHORT each, or when splice refuses. Unless it spliced WORTH_IT bytes in between, it
 * then needs twice as many large reads as before to be spliced again, up to MOST_LARGE_READS. A
 * flow that keeps alternating therefore ends up in userspace, where it costs no pipe, while a flow
 * that is short of bytes only now and then is not copied for long.
 *
 * Nothing here makes a system call: the callers report what has happened. A policy belongs to one
 * job, whose task alone writes it.
 *
 * With make bench-relay, the bare loop takes 0.22 s per GiB of 4 KiB chunks when it splices, and
 * 0.38 when it copies; with 16 KiB chunks 0.16 and 0.43. For messages of 64 bytes the two take the
 * same. Other implementations wait for reads that fill the buffer, 64 KiB; that kept streams in
 * userspace that are forwarded as they arrive. Three large reads before the switch cost little, and
 * keep short exchanges from borrowing pipes. SHORT is half of LARGE, so that a stream of pieces of
 * about that size does not alternate. With 64 KiB as LARGE, streams in chunks of 1 MiB alternated,
 * and up to four fifths of them were copied.
 *
 * The last bytes of a chunk arrive alone now and then: for chunks of 64 KiB over loopback these are
 * 53 bytes, after one segment with the rest. Other implementations return to userspace after two
 * short passes in a row, and also count passes that found nothing. With that rule, 15 to 40 % of
 * the bytes of a stream of 16 KiB to 1 MiB chunks were copied, in stretches of 256 large reads, and
 * the stream took a fifth more CPU time. A few more short passes cost nothing that could be
 * measured.
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

/* With this much spliced, the LARGE_READS reads of a full buffer that came first, 192 KiB, are a
 * twentieth of what was moved. */
#define SN_POLICY_WORTH_IT ((uint64_t)4 << 20)

struct sn_copy_policy {
	bool splicing;
	uint32_t large;   /* reads in a row that took LARGE or more */
	uint32_t wanted;  /* how many large reads in a row start splicing */
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

/* Reports a read of n bytes, not 0. Returns whether splicing may begin. */
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

/* Reports a pass that moved this much. A pass that moved nothing, because the bytes of a wake-up
 * were gone, says nothing about the flow. Returns whether the flow should go through userspace. */
static inline bool sn_policy_pass(struct sn_copy_policy *policy, uint64_t moved)
{
	policy->spliced += moved;
	if (moved > 0)
		policy->shorts = moved < SN_POLICY_SHORT ? policy->shorts + 1 : 0;
	return policy->shorts >= SN_POLICY_SHORT_PASSES;
}

/* Reports that there was no pipe. That says nothing about the flow, so splicing is soon tried
 * again. */
static inline void sn_policy_pause(struct sn_copy_policy *policy)
{
	policy->splicing = false;
	policy->large = 0;
}

/* Ends splicing, because the flow is small again or splice refuses it. */
static inline void sn_policy_end(struct sn_copy_policy *policy)
{
	sn_policy_pause(policy);
	if (policy->spliced >= SN_POLICY_WORTH_IT)
		policy->wanted = SN_POLICY_LARGE_READS;
	else if (policy->wanted < SN_POLICY_MOST_LARGE_READS)
		policy->wanted *= 2;
}

#endif
