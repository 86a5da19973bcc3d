/* SPDX-License-Identifier: MIT */
/*
 * The values of pthread_setspecific() and tss_set() belong to the task.
 *
 * Contract. Keys are the C library's, and so are the values of threads that are not adopted. A key
 * that was deleted and created again has no value in any task: each creation raises the key's
 * generation, and so does each deletion, and a value counts only if it was set in the current one.
 * Destructors are called at the end of the task, in the order and as often as POSIX says.
 *
 * A destructor is read between two reads of the generation, so that it is that of the value's own
 * key: create() and delete() raise the generation before they change the destructor.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "adopted.h"

static struct {
	_Atomic uintptr_t generation;
	_Atomic(void (*)(void *value)) destructor;
} keys[PTHREAD_KEYS_MAX];

/* The place of the key's value; NULL if there is none yet. */
static struct sn_adopted_value *find(struct sn_adopted *thread, pthread_key_t key)
{
	struct sn_adopted_value *block = thread->blocks[key / SN_ADOPTED_KEYS];

	if (key < SN_ADOPTED_KEYS)
		return &thread->values[key];
	return block ? &block[key % SN_ADOPTED_KEYS] : NULL;
}

static bool is_set(const struct sn_adopted_value *place, pthread_key_t key)
{
	return place && place->generation == atomic_load(&keys[key].generation);
}

static int create(pthread_key_t *key, void (*destructor)(void *value))
{
	/* The C library's own destructor of the key is for threads that are not adopted. */
	const int err = sn_run_real()->pthread_key_create(key, destructor);

	if (err || *key >= PTHREAD_KEYS_MAX)
		return err;
	atomic_fetch_add(&keys[*key].generation, 1);
	atomic_store(&keys[*key].destructor, destructor);
	return 0;
}

/* Before the C library's own deletion, after which another thread may create the key again. */
static int delete (pthread_key_t key)
{
	if (key < PTHREAD_KEYS_MAX) {
		atomic_fetch_add(&keys[key].generation, 1);
		atomic_store(&keys[key].destructor, NULL);
	}
	return sn_run_real()->pthread_key_delete(key);
}

/* Whose values the calling thread has, or NULL if it has the C library's. The child of a signal
 * handler's fork() has those of the task whose handle it has. */
static struct sn_adopted *owner(void)
{
	struct sn_adopted *thread = sn_adopted_self();

	return thread || !sn_run_is_bare() ? thread : sn_adopted_was();
}

static void *get(pthread_key_t key)
{
	struct sn_adopted *thread = owner();
	struct sn_adopted_value *place;

	if (!thread || key >= PTHREAD_KEYS_MAX)
		return sn_run_real()->pthread_getspecific(key);
	place = find(thread, key);
	return is_set(place, key) ? place->value : NULL;
}

/* A number, because compilers may take a pointer for one to an object. */
static int set(pthread_key_t key, uintptr_t value)
{
	struct sn_adopted *thread = owner();
	struct sn_adopted_value *place;

	if (!thread || key >= PTHREAD_KEYS_MAX)
		return sn_run_real()->pthread_setspecific(key, (void *)value);
	place = find(thread, key);
	if (!place && !value)
		return 0;
	if (!place) {
		thread->blocks[key / SN_ADOPTED_KEYS] = calloc(SN_ADOPTED_KEYS, sizeof *place);
		place = find(thread, key);
	}
	if (!place)
		return ENOMEM;
	*place = (struct sn_adopted_value){atomic_load(&keys[key].generation), (void *)value};
	return 0;
}

static bool destroy_once(struct sn_adopted *thread)
{
	bool any = false;

	for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
		struct sn_adopted_value *place = find(thread, key);
		void (*destructor)(void *value);
		void *value;

		if (!is_set(place, key) || !place->value)
			continue;
		destructor = atomic_load(&keys[key].destructor);
		if (!is_set(place, key)) /* a new key's destructor */
			continue;
		value = place->value;
		place->value = NULL;
		if (destructor) {
			destructor(value);
			any = true;
		}
	}
	return any;
}

void sn_adopted_destroy_values(struct sn_adopted *thread)
{
	for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; round++)
		if (!destroy_once(thread))
			break;
	/* A library of malloc() may set a value within free(), so none is to be found there. */
	for (size_t i = 0; i < PTHREAD_KEYS_MAX / SN_ADOPTED_KEYS; i++) {
		struct sn_adopted_value *block = thread->blocks[i];

		thread->blocks[i] = NULL;
		free(block);
	}
}

void sn_adopted_keep_values(const struct sn_adopted *thread)
{
	for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
		struct sn_adopted_value *place = find((struct sn_adopted *)thread, key);

		if (is_set(place, key) && place->value)
			sn_run_real()->pthread_setspecific(key, place->value);
	}
}

void sn_adopted_take_values(struct sn_adopted *thread)
{
	for (pthread_key_t key = 0; key < SN_ADOPTED_KEYS; key++)
		thread->values[key] =
			(struct sn_adopted_value){atomic_load(&keys[key].generation),
						  sn_run_real()->pthread_getspecific(key)};
}

SN_RUN_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value))
{
	return create(key, destructor);
}

SN_RUN_EXPORT int pthread_key_delete(pthread_key_t key)
{
	return delete (key);
}

SN_RUN_EXPORT void *pthread_getspecific(pthread_key_t key)
{
	return get(key);
}

SN_RUN_EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
	return set(key, (uintptr_t)value);
}

/* ---- C11 ---- */

SN_RUN_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	return create(key, destructor) ? thrd_error : thrd_success;
}

SN_RUN_EXPORT void tss_delete(tss_t key)
{
	delete (key);
}

SN_RUN_EXPORT void *tss_get(tss_t key)
{
	return get(key);
}

SN_RUN_EXPORT int tss_set(tss_t key, void *value)
{
	return set(key, (uintptr_t)value) ? thrd_error : thrd_success;
}
