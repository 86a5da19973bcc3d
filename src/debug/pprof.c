/* SPDX-License-Identifier: MIT */
#include "debug/pprof.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "debug/protobuf.h"

/* The numbers of fields in profile.proto, by message. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,

	TYPE_TYPE = 1,
	TYPE_UNIT = 2,

	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LABEL_NUMBER = 3,
	LABEL_UNIT = 4,

	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,

	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,

	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
};

/* Room for a sample's 64 locations, 4 values and 21 labels; and for other messages. */
#define SAMPLE_BYTES 2048
#define PART_BYTES 128

#define PLACES ((size_t)1 << 17)
#define MOST (PLACES / 4 * 3)

/* A hash table that gives numbers to keys of 64 bits other than 0. It is at most three quarters
 * full. */
struct numbers {
	uint32_t used;
	struct {
		uint64_t key;
		uint32_t number;
	} places[PLACES];
};

struct sn_pprof {
	struct sn_proto_out out;
	const struct sn_modules *modules;
	int values;
	bool met[SN_MOST_MODULES];   /* a location is in the module */
	bool named[SN_MOST_MODULES]; /* such a location has a function */
	struct numbers strings, locations, functions, sites;
	struct sn_proto message, inner, innermost;
	uint8_t message_bytes[SAMPLE_BYTES], inner_bytes[PART_BYTES], innermost_bytes[PART_BYTES];
};

/* ---- numbers ---- */

/* The number of the key; numbers begin with `first`. *fresh says whether the key is new. Returns 0
 * if the table is full. */
static uint32_t number_of(struct numbers *numbers, uint64_t key, uint32_t first, bool *fresh)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15 >> 40) & (PLACES - 1);

	*fresh = false;
	for (; numbers->places[i].key; i = (i + 1) & (PLACES - 1))
		if (numbers->places[i].key == key)
			return numbers->places[i].number;
	if (numbers->used == MOST)
		return 0;
	*fresh = true;
	numbers->places[i].key = key;
	numbers->places[i].number = first + numbers->used++;
	return numbers->places[i].number;
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash ? hash : 1;
}

/* The number of a string, which is sent if it is new. The empty string has the number 0. */
static uint64_t string(struct sn_pprof *pprof, const char *text)
{
	bool fresh;
	uint32_t number;

	if (!text || !*text)
		return 0;
	number = number_of(&pprof->strings, hash_text(text), 1, &fresh);
	if (fresh)
		sn_proto_out_text(&pprof->out, PROFILE_STRING, text);
	return number;
}

static void put_type(struct sn_pprof *pprof, unsigned field, const struct sn_pprof_type *type)
{
	struct sn_proto *message = &pprof->message;

	message->used = 0;
	sn_proto_number(message, TYPE_TYPE, string(pprof, type->type));
	sn_proto_number(message, TYPE_UNIT, string(pprof, type->unit));
	sn_proto_out_message(&pprof->out, field, message);
}

/* ---- locations ---- */

/* The number of a function, which is sent if it is new; 0 if its name is not known. */
static uint64_t function(struct sn_pprof *pprof, const char *name, const char *file)
{
	struct sn_proto *message = &pprof->innermost;
	const uint64_t text = string(pprof, name);
	bool fresh;
	uint32_t number;

	if (text == 0)
		return 0;
	number = number_of(&pprof->functions, text, 1, &fresh);
	if (!fresh)
		return number;
	message->used = 0;
	sn_proto_number(message, FUNCTION_ID, number);
	sn_proto_number(message, FUNCTION_NAME, text);
	sn_proto_number(message, FUNCTION_SYSTEM_NAME, text);
	if (file)
		sn_proto_number(message, FUNCTION_FILE, string(pprof, file));
	sn_proto_out_message(&pprof->out, PROFILE_FUNCTION, message);
	return number;
}

/* The module whose code is at the address, or NULL. */
static const struct sn_module *text_of(const struct sn_modules *modules, uintptr_t at)
{
	const struct sn_module *module = sn_module_of(modules, at);

	return module && at >= module->text_low && at < module->text_high ? module : NULL;
}

/* Sends a location. name is that of its function, and is used only if the address is 0. */
static void put_location(struct sn_pprof *pprof, uint32_t number, uintptr_t at, const char *name)
{
	const struct sn_module *module = text_of(pprof->modules, at);
	struct sn_proto *message = &pprof->message, *line = &pprof->inner;
	const ptrdiff_t which = module ? module - pprof->modules->all : 0;
	struct sn_symbol symbol = {0};
	uint64_t id;

	if (at)
		sn_symbol_of(pprof->modules, at, false, &symbol);
	id = function(pprof, at ? symbol.name : name, NULL);
	message->used = 0;
	sn_proto_number(message, LOCATION_ID, number);
	if (module) {
		sn_proto_number(message, LOCATION_MAPPING, (uint64_t)which + 1);
		pprof->met[which] = true;
	}
	sn_proto_number(message, LOCATION_ADDRESS, at);
	if (id) {
		line->used = 0;
		sn_proto_number(line, LINE_FUNCTION, id);
		sn_proto_message(message, LOCATION_LINE, line);
		if (module)
			pprof->named[which] = true;
	}
	sn_proto_out_message(&pprof->out, PROFILE_LOCATION, message);
}

/* The number of a location, which is sent if it is new; 0 if there is no room for it. */
static uint64_t location(struct sn_pprof *pprof, uintptr_t at, const char *name)
{
	bool fresh;
	uint32_t number = number_of(&pprof->locations, at ? at : hash_text(name), 1, &fresh);

	if (fresh)
		put_location(pprof, number, at, name);
	return number;
}

/* The number of the string "function+0x12", or "0x1234" if the function is not known. */
static uint64_t site(struct sn_pprof *pprof, const void *spawned_at)
{
	struct sn_symbol symbol;
	char text[sizeof symbol.name + 32];
	size_t i = (uintptr_t)spawned_at * (uint64_t)0x9e3779b97f4a7c15 >> 40 & (PLACES - 1);

	/* This table does not use number_of(), because its numbers are those of strings. */
	while (pprof->sites.places[i].key && pprof->sites.places[i].key != (uintptr_t)spawned_at)
		i = (i + 1) & (PLACES - 1);
	if (pprof->sites.places[i].key)
		return pprof->sites.places[i].number;
	sn_symbol_of(pprof->modules, (uintptr_t)spawned_at, true, &symbol);
	if (symbol.name[0])
		snprintf(text, sizeof text, "%s+0x%llx", symbol.name,
			 (unsigned long long)symbol.offset);
	else
		snprintf(text, sizeof text, "0x%llx", (unsigned long long)(uintptr_t)spawned_at);
	if (pprof->sites.used < MOST) {
		pprof->sites.used++;
		pprof->sites.places[i].key = (uintptr_t)spawned_at;
		pprof->sites.places[i].number = (uint32_t)string(pprof, text);
	}
	return string(pprof, text);
}

static void put_mapping(struct sn_pprof *pprof, int which)
{
	const struct sn_module *module = &pprof->modules->all[which];
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct sn_proto *message = &pprof->message;
	char id[2 * 32 + 1] = "";

	for (size_t i = 0; i < module->build_id_size && i < 32; i++)
		snprintf(id + 2 * i, 3, "%02x", module->build_id[i]);
	const uint64_t file = string(pprof, *module->name ? module->name : pprof->modules->program);
	const uint64_t build_id = string(pprof, id);

	message->used = 0;
	sn_proto_number(message, MAPPING_ID, (uint64_t)which + 1);
	sn_proto_number(message, MAPPING_START, module->text_low & -page);
	sn_proto_number(message, MAPPING_LIMIT, (module->text_high + page - 1) & -page);
	sn_proto_number(message, MAPPING_OFFSET, module->text_offset & -page);
	sn_proto_number(message, MAPPING_FILE, file);
	sn_proto_number(message, MAPPING_BUILD_ID, build_id);
	sn_proto_number(message, MAPPING_HAS_FUNCTIONS, pprof->named[which]);
	sn_proto_out_message(&pprof->out, PROFILE_MAPPING, message);
}

/* ---- samples ---- */

static void put_label(struct sn_pprof *pprof, uint64_t key, uint64_t text)
{
	struct sn_proto *label = &pprof->inner;

	label->used = 0;
	sn_proto_number(label, LABEL_KEY, key);
	sn_proto_number(label, LABEL_TEXT, text);
	sn_proto_message(&pprof->message, SAMPLE_LABEL, label);
}

static void put_text_label(struct sn_pprof *pprof, const char *key, const char *text)
{
	if (text && *text)
		put_label(pprof, string(pprof, key), string(pprof, text));
}

static void put_labels(struct sn_pprof *pprof, const struct sn_sample_key *key)
{
	struct sn_proto *label = &pprof->inner;

	put_text_label(pprof, "task", key->name);
	if (key->spawned_at)
		put_label(pprof, string(pprof, "spawned_at"), site(pprof, key->spawned_at));
	put_text_label(pprof, "state", key->state);
	put_text_label(pprof, "waits_for", key->waits_for);
	if (key->object) {
		label->used = 0;
		sn_proto_number(label, LABEL_KEY, string(pprof, "object"));
		sn_proto_number(label, LABEL_NUMBER, (uintptr_t)key->object);
		sn_proto_number(label, LABEL_UNIT, string(pprof, "address"));
		sn_proto_message(&pprof->message, SAMPLE_LABEL, label);
	}
	for (uint32_t i = 0; key->labels && i < key->labels->count; i++)
		put_text_label(pprof, key->labels->pairs[i].key, key->labels->pairs[i].value);
}

void sn_pprof_sample(struct sn_pprof *pprof, const struct sn_sample_key *key, const int64_t *values)
{
	struct sn_proto *message = &pprof->message;
	uint64_t locations[SN_SAMPLE_FRAMES];
	int count = 0;

	if (pprof->out.error)
		return;
	for (int i = 0; i < key->frames; i++) {
		const bool is_return_address = i > 0 || !key->exact;
		const uint64_t number = location(pprof, key->pcs[i] - is_return_address, "");

		if (number)
			locations[count++] = number;
	}
	if (key->frames == 0)
		locations[count++] =
			location(pprof, 0, key->has_task ? "[no stack]" : "[left out]");
	message->used = 0;
	for (int i = 0; i < count; i++)
		sn_proto_number(message, SAMPLE_LOCATION, locations[i]);
	for (int i = 0; i < pprof->values; i++)
		sn_proto_number(message, SAMPLE_VALUE, (uint64_t)values[i]);
	put_labels(pprof, key);
	sn_proto_out_message(&pprof->out, PROFILE_SAMPLE, message);
}

/* ---- the beginning and the end ---- */

struct sn_pprof *sn_pprof_begin(int fd, const struct sn_modules *modules,
				const struct sn_pprof_attr *attr)
{
	struct sn_pprof *pprof = mmap(NULL, sizeof *pprof, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (pprof == MAP_FAILED)
		return NULL;
	pprof->out.fd = fd;
	pprof->message = (struct sn_proto){.room = SAMPLE_BYTES, .bytes = pprof->message_bytes};
	pprof->inner = (struct sn_proto){.room = PART_BYTES, .bytes = pprof->inner_bytes};
	pprof->innermost = (struct sn_proto){.room = PART_BYTES, .bytes = pprof->innermost_bytes};
	pprof->modules = modules;
	pprof->values = attr->count;
	sn_proto_out_text(&pprof->out, PROFILE_STRING, "");
	for (int i = 0; i < attr->count; i++)
		put_type(pprof, PROFILE_SAMPLE_TYPE, &attr->types[i]);
	sn_proto_out_number(&pprof->out, PROFILE_DEFAULT_TYPE,
			    string(pprof, attr->types[attr->main].type));
	sn_proto_out_number(&pprof->out, PROFILE_TIME, (uint64_t)attr->time);
	if (attr->duration_ns)
		sn_proto_out_number(&pprof->out, PROFILE_DURATION, (uint64_t)attr->duration_ns);
	if (attr->period) {
		put_type(pprof, PROFILE_PERIOD_TYPE, &attr->period_type);
		sn_proto_out_number(&pprof->out, PROFILE_PERIOD, (uint64_t)attr->period);
	}
	return pprof;
}

void sn_pprof_comment(struct sn_pprof *pprof, const char *text)
{
	const uint64_t number = string(pprof, text);

	sn_proto_out_number(&pprof->out, PROFILE_COMMENT, number);
}

int sn_pprof_end(struct sn_pprof *pprof)
{
	int err;

	/* The program's mapping comes first, because viewers expect that. */
	for (int i = 0; i < pprof->modules->count; i++)
		if (pprof->met[i] || i == 0)
			put_mapping(pprof, i);
	err = sn_proto_out_end(&pprof->out);
	munmap(pprof, sizeof *pprof);
	return err;
}
