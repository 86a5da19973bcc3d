/* SPDX-License-Identifier: MIT */
/*
 * The reader of vDSO images.
 *
 * Contract: whatever the bytes of the image say, nothing outside [image, image + size) is read, and
 * every call ends after a number of steps bounded by the size. One rule gives the first half: all
 * reads go through get(), to which the image appears to be followed by endless zeros. Zero happens
 * to mean "nothing here" in nearly every ELF table (DT_NULL, the empty bucket, the end of a string,
 * of a chain and of the definitions), so a truncated image reads as one that lacks the symbol.
 * Where zero would not end a loop, the loop counts its steps.
 *
 * No libc, no heap, no state: usable from a signal handler and before any constructor has run.
 *
 * Rejected: structures of <elf.h> laid over the image. They need one parser per ELF class, and a
 * pointer into the image invites an unchecked read. Fields are read by offset instead, which also
 * works for an image of another word size or at an odd address. It costs about a microsecond once
 * per process.
 */
#include <sennit/vdso.h>

#include <elf.h>
#include <errno.h>

/* Returns the number in `width` bytes at the offset, in the image's byte order; 0 if any of them is
 * outside the image. */
static uint64_t get(const struct sn_vdso *v, uint64_t offset, unsigned width)
{
	uint64_t value = 0;

	if (offset > v->size || v->size - offset < width)
		return 0;
	for (unsigned i = 0; i < width; i++)
		value |= (uint64_t)v->image[offset + (v->big ? width - 1 - i : i)] << 8 * i;
	return value;
}

/* Reads a field that is as wide as an address of the image's class. narrow, wide: its offset from
 * base in the 32-bit and the 64-bit class. */
static uint64_t get_word(const struct sn_vdso *v, uint64_t base, unsigned narrow, unsigned wide)
{
	return v->wide ? get(v, base + wide, 8) : get(v, base + narrow, 4);
}

#define FIELD(v, base, type, field)                                 \
	((v)->wide ? get(v, (base) + offsetof(Elf64_##type, field), \
			 sizeof(((Elf64_##type *)0)->field))        \
		   : get(v, (base) + offsetof(Elf32_##type, field), \
			 sizeof(((Elf32_##type *)0)->field)))

/* Whether the string at this offset of the image is the given one. */
static int same(const struct sn_vdso *v, uint64_t offset, const char *string)
{
	/* Past the end get() returns 0, which ends the loop at or before the string's own end. */
	for (;; offset++, string++) {
		if (offset >= v->size || get(v, offset, 1) != (unsigned char)*string)
			return 0;
		if (*string == '\0')
			return 1;
	}
}

/* The offset of an address in the image; 0, which means "no table", for an address outside it. */
static uint64_t offset_of(const struct sn_vdso *v, uint64_t address)
{
	uint64_t offset = address + v->shift;

	if (!v->wide)
		offset = (uint32_t)offset;
	return offset < v->size ? offset : 0;
}

static int open_header(struct sn_vdso *v)
{
	if (get(v, 0, 4) != 0x464c457f /* \177ELF */)
		return -ENOEXEC;
	if (get(v, EI_DATA, 1) == ELFDATA2MSB)
		v->big = 1;
	else if (get(v, EI_DATA, 1) != ELFDATA2LSB)
		return -ENOEXEC;
	if (get(v, EI_CLASS, 1) == ELFCLASS64)
		v->wide = 1;
	else if (get(v, EI_CLASS, 1) != ELFCLASS32)
		return -ENOEXEC;
	return 0;
}

/* Sets v->shift, and finds the dynamic section: [*dynamic, *dynamic_end). */
static int open_segments(struct sn_vdso *v, uint64_t *dynamic, uint64_t *dynamic_end)
{
	uint64_t headers = FIELD(v, 0, Ehdr, e_phoff);
	uint64_t stride = FIELD(v, 0, Ehdr, e_phentsize);
	uint64_t count = FIELD(v, 0, Ehdr, e_phnum); /* 16 bits wide, so it bounds the loop */
	uint64_t size = v->size;
	int loaded = 0;

	*dynamic = *dynamic_end = 0;
	if (headers >= size || stride < (v->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
		return -ENOEXEC;
	for (uint64_t i = 0, at = headers; i < count; i++, at += stride) {
		uint64_t type = FIELD(v, at, Phdr, p_type);
		uint64_t offset = FIELD(v, at, Phdr, p_offset);

		if (type == PT_LOAD && !loaded) {
			/*
			 * The first loadable segment decides where addresses begin. Old kernels
			 * linked the image for a fixed address and mapped it elsewhere.
			 */
			v->shift = offset - FIELD(v, at, Phdr, p_vaddr);
			loaded = 1;
		} else if (type == PT_DYNAMIC) {
			uint64_t length = FIELD(v, at, Phdr, p_filesz);

			*dynamic = offset;
			*dynamic_end =
				offset < size && length < size - offset ? offset + length : size;
		}
	}
	return loaded && *dynamic ? 0 : -ENOEXEC;
}

static int open_tables(struct sn_vdso *v, uint64_t dynamic, uint64_t dynamic_end)
{
	uint64_t stride = v->wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);

	for (uint64_t at = dynamic; at < dynamic_end; at += stride) {
		uint64_t tag = get_word(v, at, 0, 0);
		uint64_t offset = offset_of(v, get_word(v, at, 4, 8));

		if (tag == DT_NULL)
			break;
		if (tag == DT_STRTAB)
			v->strings = offset;
		else if (tag == DT_SYMTAB)
			v->symbols = offset;
		else if (tag == DT_GNU_HASH)
			v->gnu_hash = offset;
		else if (tag == DT_HASH)
			v->hash = offset;
		else if (tag == DT_VERSYM)
			v->versions = offset;
		else if (tag == DT_VERDEF)
			v->definitions = offset;
	}
	if (!v->strings || !v->symbols || (!v->gnu_hash && !v->hash))
		return -ENOEXEC;
	return 0;
}

int sn_vdso_open(struct sn_vdso *v, const void *image, size_t size)
{
	uint64_t dynamic, dynamic_end;

	v->image = image;
	v->size = size;
	v->strings = v->symbols = v->gnu_hash = v->hash = v->versions = v->definitions = 0;
	v->shift = 0;
	v->wide = v->big = 0;
	if (open_header(v) < 0 || open_segments(v, &dynamic, &dynamic_end) < 0)
		return -ENOEXEC;
	return open_tables(v, dynamic, dynamic_end);
}

/* Whether the symbol with this index has the version. */
static int has_version(const struct sn_vdso *v, uint64_t index, const char *version)
{
	uint64_t wanted, at = v->definitions, next;

	if (!version || !v->versions || !v->definitions)
		return 1;
	/* The top bit marks a version that is not the default, which matters to linkers only. */
	wanted = get(v, v->versions + 2 * index, 2) & 0x7fff;
	/* Records do not overlap, so their number is at most a twentieth of the image's size. */
	for (; at < v->size; at += next) {
		/* The record's layout does not depend on the class. */
		if ((get(v, at + offsetof(Elf64_Verdef, vd_ndx), 2) & 0x7fff) == wanted) {
			uint64_t aux = at + get(v, at + offsetof(Elf64_Verdef, vd_aux), 4);

			return same(v,
				    v->strings + get(v, aux + offsetof(Elf64_Verdaux, vda_name), 4),
				    version);
		}
		next = get(v, at + offsetof(Elf64_Verdef, vd_next), 4);
		if (next < sizeof(Elf64_Verdef))
			break;
	}
	return 0;
}

/* The address of the symbol with this index if it is the wanted one, else NULL. */
static void *match(const struct sn_vdso *v, uint64_t index, const char *version, const char *name)
{
	uint64_t at = v->symbols + index * (v->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym));
	uint64_t info = FIELD(v, at, Sym, st_info), place;

	if (FIELD(v, at, Sym, st_shndx) == SHN_UNDEF)
		return NULL;
	if (ELF64_ST_TYPE(info) != STT_FUNC && ELF64_ST_TYPE(info) != STT_NOTYPE)
		return NULL;
	if (ELF64_ST_BIND(info) != STB_GLOBAL && ELF64_ST_BIND(info) != STB_WEAK)
		return NULL;
	if (!same(v, v->strings + FIELD(v, at, Sym, st_name), name) ||
	    !has_version(v, index, version))
		return NULL;
	place = offset_of(v, FIELD(v, at, Sym, st_value));
	return place ? (void *)(uintptr_t)(v->image + place) : NULL;
}

/*
 * The table: four words (number of buckets, first hashed symbol, words of the Bloom filter, its
 * shift), the filter, the buckets, and one hash per symbol, whose lowest bit marks the last of its
 * bucket. The filter would only save time, and a lookup takes little, so it is skipped.
 */
static void *find_by_gnu_hash(const struct sn_vdso *v, const char *version, const char *name)
{
	uint64_t buckets = get(v, v->gnu_hash, 4), first = get(v, v->gnu_hash + 4, 4);
	uint64_t filter = get(v, v->gnu_hash + 8, 4) * (v->wide ? 8 : 4);
	uint64_t bucket_table = v->gnu_hash + 16 + filter, hashes, index;
	uint32_t hash = 5381;

	if (!buckets)
		return NULL;
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	hashes = bucket_table + 4 * buckets;
	index = get(v, bucket_table + 4 * (hash % buckets), 4);
	if (index < first)
		return NULL; /* 0 is the empty bucket, and first is never 0 in a sound image */

	/* Past the end zeros would continue forever; the size of the image stops the loop. */
	for (; hashes + 4 * (index - first) < v->size; index++) {
		uint32_t found = (uint32_t)get(v, hashes + 4 * (index - first), 4);
		void *place;

		if ((found | 1) == (hash | 1) && (place = match(v, index, version, name)))
			return place;
		if (found & 1)
			break;
	}
	return NULL;
}

/* The table: two words (number of buckets, number of symbols), the buckets, and for each symbol the
 * next one in its chain. A word has 4 bytes, except in 64-bit images of s390. */
static void *find_by_hash(const struct sn_vdso *v, const char *version, const char *name)
{
	const unsigned width = v->wide && FIELD(v, 0, Ehdr, e_machine) == EM_S390 ? 8 : 4;
	uint64_t buckets = get(v, v->hash, width), symbols = get(v, v->hash + width, width);
	uint64_t table = v->hash + 2 * width, chains = table + width * buckets, index;
	uint32_t hash = 0;

	if (!buckets)
		return NULL;
	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash ^= hash >> 24 & 0xf0;
		hash &= 0x0fffffff;
	}
	if (symbols > v->size / 4)
		symbols = v->size / 4;
	index = get(v, table + width * (hash % buckets), width);
	/* A cyclic chain ends after as many steps as there can be symbols. */
	for (uint64_t steps = 0; index && steps < symbols; steps++) {
		void *place = match(v, index, version, name);

		if (place)
			return place;
		index = get(v, chains + width * index, width);
	}
	return NULL;
}

void *sn_vdso_find(const struct sn_vdso *v, const char *version, const char *name)
{
	void *place = v->gnu_hash ? find_by_gnu_hash(v, version, name) : NULL;

	/* arm64 kernels since 6.11 have only DT_GNU_HASH, old kernels only DT_HASH. */
	if (!place && v->hash)
		place = find_by_hash(v, version, name);
	return place;
}
