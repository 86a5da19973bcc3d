/* SPDX-License-Identifier: MIT */
#include "task/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/local.h>

#include "sched/control_block.h"
#include "sched/thread.h"
#include "task/local.h"

static void destroy(void *labels)
{
	sn_labels_drop(labels);
}

static void *copy(void *labels)
{
	return sn_labels_hold(labels);
}

static const sn_local key_of_labels = {
	.destroy = destroy, .copy = copy, .flags = SN_LOCAL_INHERITED};

struct sn_labels *sn_labels_of(const struct sn_task *task)
{
	return sn_local_peek(task, &key_of_labels);
}

struct sn_labels *sn_labels_hold(struct sn_labels *labels)
{
	if (labels)
		atomic_fetch_add_explicit(&labels->refs, 1, memory_order_relaxed);
	return labels;
}

void sn_labels_drop(struct sn_labels *labels)
{
	/* Acquire and release: the thread that frees the set does so after the last reads of all
	 * others. */
	if (labels && atomic_fetch_sub_explicit(&labels->refs, 1, memory_order_acq_rel) == 1)
		free(labels);
}

/* ---- making sets ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	/* With the terminating zero, so that "ab", "c" is not "a", "bc". */
	do
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	while (*text++);
	return hash;
}

/* The index of the key among the pairs, or that at which it would be; *found says which. */
static uint32_t place_of(const struct sn_labels *labels, const char *key, bool *found)
{
	uint32_t i = 0;

	*found = false;
	for (; labels && i < labels->count; i++) {
		int order = strcmp(labels->pairs[i].key, key);

		*found = order == 0;
		if (order >= 0)
			break;
	}
	return i;
}

/* How many bytes of a text are kept: at most `most`, and no part of a UTF-8 character. */
static size_t length_of(const char *text, size_t most)
{
	size_t length = strnlen(text, most);

	while (text[length] && length > 0 && (text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static char *put_text(char *to, const char *text, size_t most, const char **where)
{
	size_t length = length_of(text, most);

	*where = to;
	memcpy(to, text, length);
	to[length] = '\0';
	return to + length + 1;
}

/* Makes a set of these pairs, with one reference; returns NULL if there is no memory. */
static struct sn_labels *make(const struct sn_label_pair *pairs, uint32_t count)
{
	size_t texts = 0;
	struct sn_labels *labels;
	char *to;

	for (uint32_t i = 0; i < count; i++)
		texts += strlen(pairs[i].key) + strnlen(pairs[i].value, SN_LABEL_VALUE_MAX) + 2;
	labels = malloc(sizeof *labels + count * sizeof *pairs + texts);
	if (!labels)
		return NULL;
	atomic_init(&labels->refs, 1);
	labels->count = count;
	labels->hash = 0xcbf29ce484222325;
	to = (char *)&labels->pairs[count];
	for (uint32_t i = 0; i < count; i++) {
		struct sn_label_pair *pair = &labels->pairs[i];

		to = put_text(to, pairs[i].key, SN_LABEL_KEY_MAX, &pair->key);
		to = put_text(to, pairs[i].value, SN_LABEL_VALUE_MAX, &pair->value);
		labels->hash = hash_text(hash_text(labels->hash, pair->key), pair->value);
	}
	return labels;
}

/* Makes the set that results from the change. Returns 0 with the set in *to, which is NULL if no
 * label is left, or a negative errno. */
static int change(const struct sn_labels *from, const char *key, const char *value,
		  struct sn_labels **to)
{
	struct sn_label_pair pairs[SN_LABELS_MAX + 1];
	bool found;
	const uint32_t place = place_of(from, key, &found), old = from ? from->count : 0;
	const uint32_t rest = place + found;
	uint32_t count = place;

	*to = NULL;
	for (uint32_t i = 0; i < place; i++)
		pairs[i] = from->pairs[i];
	if (value)
		pairs[count++] = (struct sn_label_pair){key, value};
	for (uint32_t i = rest; i < old; i++)
		pairs[count++] = from->pairs[i];
	if (count > SN_LABELS_MAX)
		return -ENOSPC;
	if (count == 0)
		return 0;
	*to = make(pairs, count);
	return *to ? 0 : -ENOMEM;
}

int sn_label(const char *key, const char *value)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_labels *from, *to;
	int err;

	if (!key || !*key || strnlen(key, SN_LABEL_KEY_MAX + 1) > SN_LABEL_KEY_MAX)
		return -EINVAL;
	if (!self || !self->task)
		return -ENOTSUP;
	from = sn_local_get(&key_of_labels);
	err = change(from, key, value, &to);
	if (err < 0)
		return err;
	err = sn_local_set(&key_of_labels, to);
	/* The previous set is dropped only now that the task no longer refers to it: see
	 * sn_labels_of(). */
	sn_labels_drop(err < 0 ? to : from);
	return err;
}

/* ---- the end of a run ---- */

static int drop_abandoned(struct sn_task *task, void *arg)
{
	(void)arg;
	sn_labels_drop(sn_labels_of(task));
	return 0;
}

void sn_labels_end(void)
{
	if (sn_locals_used())
		sn_block_each(drop_abandoned, NULL);
}
