/* SPDX-License-Identifier: MIT */
/*
 * Which certificates of a set are for a name: an index, made with the set.
 *
 * Contract. sn_tls_names_find() finds the certificate that X509_check_host() would accept first if
 * it were called for one certificate after the other. It calls that function for few of them,
 * because any client may send a name that fits none: with 100,000 certificates that would take half
 * a second for each hello.
 *
 * An entry is a name as it is in a certificate, in lower case. If the name has a star in its first
 * label, another entry has what follows that label. A name can fit only a certificate with an entry
 * for it, or with an entry for what follows its own first label. Whether it does fit is decided by
 * X509_check_host(), so the index may have entries that fit nothing: common names beside
 * alternative ones, and texts that are not names.
 *
 * An index does not change once it is made. It is reference counted, by sets, because a set with
 * other OCSP responses has the same certificates in the same order.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/x509v3.h>

#include "tls/tls.h"

struct entry {
	size_t at; /* in text */
	uint32_t pair;
	bool behind_label;
};

struct sn_tls_names {
	_Atomic unsigned references;
	struct entry *entries; /* sorted */
	size_t n, room;
	char *text; /* the names, each with a NUL */
	size_t size, text_room;
};

struct sn_tls_names *sn_tls_names_ref(struct sn_tls_names *names)
{
	/* relaxed: the caller has a set, which has a reference */
	if (names)
		atomic_fetch_add_explicit(&names->references, 1, memory_order_relaxed);
	return names;
}

void sn_tls_names_release(struct sn_tls_names *names)
{
	/* Acquire as well as release: the last one must see what the others did with the index. */
	if (!names || atomic_fetch_sub_explicit(&names->references, 1, memory_order_acq_rel) != 1)
		return;
	free(names->entries);
	free(names->text);
	free(names);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ---- making it ---- */

/* Returns the array with room for at least n elements of that size. Returns NULL if there is no
 * memory; the old array stays. */
static void *grown(void *array, size_t *room, size_t n, size_t size)
{
	void *larger = array;

	if (n <= *room)
		return array;
	larger = realloc(array, 2 * n * size);
	if (larger)
		*room = 2 * n;
	return larger;
}

static bool put(struct sn_tls_names *names, uint32_t pair, const char *name, size_t size,
		bool behind_label)
{
	char *text = grown(names->text, &names->text_room, names->size + size + 1, 1);
	struct entry *entries;

	if (!text)
		return false;
	names->text = text;
	entries = grown(names->entries, &names->room, names->n + 1, sizeof *entries);
	if (!entries)
		return false;
	names->entries = entries;
	entries[names->n++] = (struct entry){names->size, pair, behind_label};
	for (size_t i = 0; i < size; i++)
		text[names->size++] = lower(name[i]);
	text[names->size++] = '\0';
	return true;
}

/* Adds a name of a certificate, which may be any text. */
static bool add(struct sn_tls_names *names, uint32_t pair, const unsigned char *data, int size)
{
	const char *name = (const char *)data, *dot;

	if (!data || size <= 0 || memchr(name, '\0', (size_t)size))
		return true;
	if (!put(names, pair, name, (size_t)size, false))
		return false;
	dot = memchr(name, '.', (size_t)size);
	if (!dot || !memchr(name, '*', (size_t)(dot - name)))
		return true;
	return put(names, pair, dot + 1, (size_t)(name + size - dot - 1), true);
}

static bool add_alternative_names(struct sn_tls_names *names, uint32_t pair, const X509 *from)
{
	GENERAL_NAMES *list = X509_get_ext_d2i(from, NID_subject_alt_name, NULL, NULL);
	bool done = true;

	for (int i = 0; done && i < sk_GENERAL_NAME_num(list); i++) {
		const GENERAL_NAME *each = sk_GENERAL_NAME_value(list, i);

		if (each->type == GEN_DNS)
			done = add(names, pair, ASN1_STRING_get0_data(each->d.dNSName),
				   ASN1_STRING_length(each->d.dNSName));
	}
	GENERAL_NAMES_free(list);
	return done;
}

static bool add_common_names(struct sn_tls_names *names, uint32_t pair, const X509 *from)
{
	const X509_NAME *subject = X509_get_subject_name(from);
	bool done = true;

	for (int i = -1;
	     done && (i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0;) {
		unsigned char *data = NULL;
		const int size = ASN1_STRING_to_UTF8(
			&data, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)));

		done = add(names, pair, data, size);
		OPENSSL_free(data);
	}
	return done;
}

static int compare(const void *left, const void *right, void *text)
{
	const struct entry *a = left, *b = right;
	int order = strcmp((char *)text + a->at, (char *)text + b->at);

	if (order == 0)
		order = a->behind_label - b->behind_label;
	return order ? order : a->pair < b->pair ? -1 : a->pair > b->pair;
}

struct sn_tls_names *sn_tls_names_new(const struct sn_tls_set *set)
{
	struct sn_tls_names *names = calloc(1, sizeof *names);
	bool done = names != NULL;

	if (names)
		atomic_init(&names->references, 1);
	for (size_t i = 0; done && i < set->n; i++) {
		const X509 *each = set->pairs[i]->certificate;

		done = add_alternative_names(names, (uint32_t)i, each) &&
		       add_common_names(names, (uint32_t)i, each);
	}
	if (!done) {
		sn_tls_names_release(names);
		return NULL;
	}
	if (names->n > 0)
		qsort_r(names->entries, names->n, sizeof *names->entries, compare, names->text);
	return names;
}

/* ---- finding ---- */

/* How many entries come before the first with that key. */
static size_t place_of(const struct sn_tls_names *names, const char *key, bool behind_label)
{
	size_t from = 0, to = names->n;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;
		const struct entry *entry = &names->entries[middle];
		const int order = strcmp(names->text + entry->at, key);

		if (order < 0 || (order == 0 && entry->behind_label < behind_label))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static const struct sn_tls_pair *first_of(const struct sn_tls_set *set, const char *key,
					  bool behind_label, const char *name, unsigned flags)
{
	const struct sn_tls_names *names = set->names;

	for (size_t i = place_of(names, key, behind_label); i < names->n; i++) {
		const struct entry *entry = &names->entries[i];
		const struct sn_tls_pair *pair = set->pairs[entry->pair];

		if (entry->behind_label != behind_label ||
		    strcmp(names->text + entry->at, key) != 0)
			break;
		if (X509_check_host(pair->certificate, name, 0, flags, NULL) == 1)
			return pair;
	}
	return NULL;
}

const struct sn_tls_pair *sn_tls_names_find(const struct sn_tls_set *set, const char *name)
{
	char key[TLSEXT_MAXLEN_host_name + 1];
	const struct sn_tls_pair *found;
	const char *dot;
	size_t size = 0;

	for (; name[size]; size++) {
		if (size == TLSEXT_MAXLEN_host_name)
			return NULL;
		key[size] = lower(name[size]);
	}
	key[size] = '\0';
	found = first_of(set, key, false, name, X509_CHECK_FLAG_NO_WILDCARDS);
	dot = strchr(key, '.');
	return found || !dot ? found : first_of(set, dot + 1, true, name, 0);
}
