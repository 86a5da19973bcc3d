/* SPDX-License-Identifier: MIT */
#include "debug/samples.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/registers.h"
#include "debug/backtrace.h"
#include "sched/task.h"

/* The number of places, of 700 bytes each. */
#define SIZE ((size_t)(sizeof(void *) > 4 ? 32768 : 8192))

/* From this number of samples on, keys are made coarser; the rest of the table is for these. */
#define NEARLY_FULL (SIZE / 4 * 3)
#define FULL (SIZE / 16 * 15)

static size_t bytes_of(const struct sn_samples *samples)
{
	return samples->size * sizeof samples->all[0];
}

int sn_samples_begin(struct sn_samples *samples)
{
	void *all;

	*samples = (struct sn_samples){.size = SIZE};
	all = mmap(NULL, bytes_of(samples), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return -ENOMEM;
	samples->all = all;
	return 0;
}

void sn_samples_end(struct sn_samples *samples)
{
	if (!samples->all)
		return;
	for (struct sn_sample *sample = NULL; (sample = sn_samples_next(samples, sample)) != NULL;)
		sn_labels_drop(sample->key.labels);
	munmap(samples->all, bytes_of(samples));
	samples->all = NULL;
}

/* Acquire, pairs with the release of list(): the keys of all samples that were listed before are
 * complete, because each compare-and-swap continues the release sequence of the earlier ones. */
struct sn_sample *sn_samples_next(struct sn_samples *samples, struct sn_sample *after)
{
	return after ? after->next : atomic_load_explicit(&samples->last, memory_order_acquire);
}

/* ---- adding ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct sn_sample_key *key)
{
	uint64_t hash = mix(key->frames, (uintptr_t)key->spawned_at);
	uint64_t name[(SN_TASK_NAME_MAX + 8) / 8] = {0};

	hash = mix(hash, (uintptr_t)key->object);
	hash = mix(hash, (uintptr_t)key->state);
	hash = mix(hash, (uintptr_t)key->waits_for);
	hash = mix(hash, key->labels ? key->labels->hash : 0);
	hash = mix(hash, (uint64_t)key->exact << 1 | key->has_task);
	memcpy(name, key->name, strlen(key->name));
	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
		hash = mix(hash, name[i]);
	for (int i = key->vary < key->frames ? key->vary : 0; i < key->frames; i++)
		hash = mix(hash, key->pcs[i]);
	return hash ? hash : 1;
}

static void list(struct sn_samples *samples, struct sn_sample *sample)
{
	sample->next = atomic_load_explicit(&samples->last, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&samples->last, &sample->next, sample,
						      memory_order_release, memory_order_relaxed))
		;
}

/* Finds or adds the sample of a key. Returns NULL if the table has `most` samples already. */
static struct sn_sample *find(struct sn_samples *samples, const struct sn_sample_key *key,
			      size_t most)
{
	const uint64_t hash = hash_of(key);

	for (size_t i = hash >> 20 & (SIZE - 1);; i = (i + 1) & (SIZE - 1)) {
		struct sn_sample *sample = &samples->all[i];
		uint64_t seen = atomic_load_explicit(&sample->hash, memory_order_relaxed);

		if (seen == hash)
			return sample;
		if (seen)
			continue;
		if (atomic_fetch_add_explicit(&samples->used, 1, memory_order_relaxed) >= most) {
			atomic_fetch_sub_explicit(&samples->used, 1, memory_order_relaxed);
			return NULL;
		}
		if (atomic_compare_exchange_strong_explicit(&sample->hash, &seen, hash,
							    memory_order_relaxed,
							    memory_order_relaxed)) {
			/* Unused frames are not copied, so that their pages stay untouched. */
			memcpy(&sample->key, key,
			       offsetof(struct sn_sample_key, pcs) +
				       key->frames * sizeof key->pcs[0]);
			sn_labels_hold(sample->key.labels);
			list(samples, sample);
			return sample;
		}
		atomic_fetch_sub_explicit(&samples->used, 1, memory_order_relaxed);
		if (seen == hash)
			return sample;
	}
}

void sn_samples_add(struct sn_samples *samples, struct sn_sample_key *key, const int64_t *values)
{
	struct sn_sample *sample = find(samples, key, NEARLY_FULL);
	_Atomic int64_t *sums = sample ? sample->values : samples->left_out_values;

	if (!sample) {
		key->object = NULL;
		key->name[0] = '\0';
		key->labels = NULL;
		sample = find(samples, key, FULL);
		if (sample)
			sums = sample->values;
		else
			atomic_fetch_add_explicit(&samples->left_out, 1, memory_order_relaxed);
	}
	for (int i = 0; i < SN_SAMPLE_VALUES; i++)
		if (values[i])
			atomic_fetch_add_explicit(&sums[i], values[i], memory_order_relaxed);
}

/* ---- keys ---- */

void sn_sample_task(struct sn_sample_key *key, const struct sn_task *task)
{
	key->has_task = true;
	key->spawned_at = atomic_load_explicit(&task->spawned_at, memory_order_relaxed);
	key->labels = sn_labels_of(task);
	for (int i = 0; i < SN_TASK_NAME_MAX; i++)
		if (!(key->name[i] = atomic_load_explicit(&task->name[i], memory_order_relaxed)))
			break;
	key->name[SN_TASK_NAME_MAX] = '\0';
}

void sn_sample_walk(struct sn_sample_key *key, struct sn_modules *modules,
		    struct sn_registers *registers, const void *low, const void *high, bool exact)
{
	bool complete;

	key->exact = exact;
	key->frames = (uint16_t)sn_backtrace(modules, registers, low, high, exact, key->pcs,
					     SN_SAMPLE_FRAMES, &complete);
}

void sn_sample_walk_saved(struct sn_sample_key *key, struct sn_modules *modules,
			  const struct sn_task *task)
{
	const struct sn_stack stack = sn_task_stack(task);
	struct sn_registers registers;

	if (task->context.sp) {
		sn_registers_saved(task->context.sp, &registers);
		sn_sample_walk(key, modules, &registers, task->context.sp, stack.high, false);
		/* sn_park() and the function that it calls: see first_frame() in dump.c. */
		key->vary = 2;
	} else {
		key->pcs[0] = (uintptr_t)task->fn;
		key->frames = 1;
		key->exact = true;
	}
}
