/* SPDX-License-Identifier: MIT */
#include "debug/modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is mapped ---- */

/* Finds the build id in a segment of notes. */
static void find_build_id(struct sn_module *module, const uint8_t *notes, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)notes;
		const size_t name = (note->n_namesz + 3) & ~(size_t)3;
		const size_t whole = sizeof *note + name + ((note->n_descsz + 3) & ~(size_t)3);

		if (whole > size)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof ELF_NOTE_GNU &&
		    memcmp(note + 1, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
			module->build_id = notes + sizeof *note + name;
			module->build_id_size = note->n_descsz;
			return;
		}
		notes += whole;
		size -= whole;
	}
}

static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct sn_modules *modules = arg;
	struct sn_module *module = &modules->all[modules->count];

	(void)size;
	*module = (struct sn_module){
		.base = info->dlpi_addr, .low = UINTPTR_MAX, .name = info->dlpi_name};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_EH_FRAME)
			module->frames = (const uint8_t *)at;
#if defined(__arm__)
		if (segment->p_type == PT_ARM_EXIDX) {
			module->exidx = (const uint32_t *)at;
			module->exidx_count = segment->p_memsz / 8;
		}
#endif
		if (segment->p_type == PT_NOTE && !module->build_id)
			find_build_id(module, (const uint8_t *)at, segment->p_memsz);
		if (segment->p_type != PT_LOAD)
			continue;
		if ((segment->p_flags & PF_X) && module->text_high == 0) {
			module->text_low = at;
			module->text_high = at + segment->p_memsz;
			module->text_offset = segment->p_offset;
		}
		if (at < module->low)
			module->low = at;
		if (at + segment->p_memsz > module->high)
			module->high = at + segment->p_memsz;
	}
	return ++modules->count == SN_MOST_MODULES;
}

void sn_modules_find(struct sn_modules *modules)
{
	ssize_t n = readlink("/proc/self/exe", modules->program, sizeof modules->program - 1);

	modules->program[n > 0 ? n : 0] = 0;
	modules->count = 0;
	dl_iterate_phdr(add_module, modules);
}

const struct sn_module *sn_module_of(const struct sn_modules *modules, uintptr_t pc)
{
	for (int i = 0; i < modules->count; i++)
		if (pc >= modules->all[i].low && pc < modules->all[i].high)
			return &modules->all[i];
	return NULL;
}

/* ---- names ---- */

struct file {
	const uint8_t *data;
	size_t size;
};

static bool map_file(const char *name, struct file *file)
{
	struct stat status;
	int fd = open(*name ? name : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *data = MAP_FAILED;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && status.st_size > (off_t)sizeof(ElfW(Ehdr)))
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return false;
	file->data = data;
	file->size = (size_t)status.st_size;
	return true;
}

static const void *within(const struct file *file, uint64_t at, uint64_t size)
{
	return at <= file->size && size <= file->size - at ? file->data + at : NULL;
}

/* Looks for the function at an address in the symbol table of that type. */
static bool look_up(const struct file *file, uint32_t type, uintptr_t at, struct sn_symbol *symbol)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)file->data;
	const ElfW(Shdr) *sections =
		within(file, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
	bool found = false;
	uintptr_t best = 0;

	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || !sections)
		return false;
	for (int i = 0; i < header->e_shnum; i++) {
		const ElfW(Sym) * symbols;
		const ElfW(Shdr) * strings;
		const char *text;

		if (sections[i].sh_type != type || sections[i].sh_link >= header->e_shnum)
			continue;
		strings = &sections[sections[i].sh_link];
		symbols = within(file, sections[i].sh_offset, sections[i].sh_size);
		text = within(file, strings->sh_offset, strings->sh_size);
		if (!symbols || !text || strings->sh_size == 0)
			continue;
		for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
			const ElfW(Sym) *s = &symbols[k];
			uintptr_t value = s->st_value;

#if defined(__arm__)
			value &= ~(uintptr_t)1;
#endif
			/* Only functions count. */
			if ((s->st_info & 0xf) != STT_FUNC || s->st_shndx == SHN_UNDEF ||
			    at < value || at - value >= (s->st_size ? s->st_size : 1) ||
			    s->st_name >= strings->sh_size || (found && value <= best))
				continue;
			found = true;
			best = value;
			symbol->offset = at - value;
			strncpy(symbol->name, text + s->st_name, sizeof symbol->name - 1);
			symbol->name[sizeof symbol->name - 1] = 0;
		}
	}
	return found;
}

void sn_symbol_of(const struct sn_modules *modules, uintptr_t pc, bool is_return_address,
		  struct sn_symbol *symbol)
{
	uintptr_t at = is_return_address ? pc - 1 : pc;
	const struct sn_module *module = sn_module_of(modules, at);
	struct file file;

	memset(symbol, 0, sizeof *symbol);
	if (!module)
		return;
	symbol->module = *module->name ? module->name : modules->program;
	symbol->module_offset = pc - module->base;
	if (!map_file(module->name, &file))
		return;
	if (!look_up(&file, SHT_SYMTAB, at - module->base, symbol))
		look_up(&file, SHT_DYNSYM, at - module->base, symbol);
	symbol->offset += is_return_address;
	munmap((void *)file.data, file.size);
}
