/* SPDX-License-Identifier: MIT */
/*
 * For libFuzzer, with seeds/srv/ to begin with: whatever a name server answers, the reader of SRV
 * records reads nothing outside of the message, ends, and returns to the caller what the header
 * promises. scripts/fuzz runs it.
 */
#include "names/srv.c"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message message = {data, data, data + size};
	sn_srv_list *list;
	struct sn_srv *records;
	void *answer;
	uint64_t before = 0, after = 0;
	size_t bytes;
	int err = take_records(&answer, &bytes, &message);

	if (err < 0) {
		if (err != -EIO && err != -ENOENT && err != -EADDRNOTAVAIL)
			abort();
		return 0;
	}
	list = answer;
	records = (struct sn_srv *)(list + 1);
	if (list->count == 0 || bytes != sizeof *list + list->count * sizeof *records)
		abort();
	for (size_t i = 0; i < list->count; i++) {
		if (!records[i].target[0] || !is_harmless(records[i].target) ||
		    strlen(records[i].target) >= sizeof records[i].target)
			abort();
		before += records[i].port + records[i].weight;
	}
	put_in_order(records, list->count);
	for (size_t i = 0; i < list->count; i++) {
		if (i > 0 && records[i].priority < records[i - 1].priority)
			abort();
		after += records[i].port + records[i].weight;
	}
	if (before != after) /* the ordering loses no record */
		abort();
	sn_srv_list_free(list);
	return 0;
}
