/* SPDX-License-Identifier: MIT */
/*
 * The unwinding tables of 32-bit ARM ("Exception Handling ABI for the Arm Architecture", EHABI).
 *
 * .ARM.exidx is sorted by function, with two words for each: where the function begins, and how to
 * undo its frame, in the word itself or in .ARM.extab. A frame is undone by a sequence of bytes
 * that operate on a virtual stack pointer; decode() has all of them. The tables are valid at calls
 * only, not in prologues.
 */
#include "debug/ehabi.h"

#if defined(__arm__)

#	define CANTUNWIND 1u
#	define INLINE 0x80000000u
#	define FINISH 0xb0

enum { R4 = 4, SP = 13, LR = 14, PC = 15 };

struct codes {
	const uint32_t *more; /* the words after the current one */
	uint32_t word;        /* the current word, shifted so that its highest byte is next */
	unsigned left;        /* bytes left in it */
	unsigned words;       /* words left after it */
};

/* Reads a pointer of 31 bits that is relative to its own address. */
static uintptr_t relative(const uint32_t *at)
{
	return (uintptr_t)at + (uintptr_t)((int32_t)(*at << 1) >> 1);
}

static unsigned next_code(struct codes *codes)
{
	unsigned code;

	if (codes->left == 0) {
		if (codes->words == 0)
			return FINISH; /* sequences are padded with it */
		codes->words--;
		codes->word = *codes->more++;
		codes->left = 4;
	}
	code = codes->word >> 24;
	codes->word <<= 8;
	codes->left--;
	return code;
}

static const uint32_t *find_entry(const struct sn_module *module, uintptr_t pc)
{
	const uint32_t *table = module->exidx;
	size_t low = 0, high = module->exidx_count;

	if (high == 0 || pc < relative(table))
		return NULL;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (relative(table + 2 * middle) <= pc)
			low = middle;
		else
			high = middle;
	}
	return table + 2 * low;
}

/* Finds the codes of an entry. Returns false if only the language's own routine knows its
 * format. */
static bool find_codes(const uint32_t *how, struct codes *codes)
{
	const uint32_t *table = how;
	unsigned kind;

	if (!(*how & INLINE))
		table = (const uint32_t *)relative(how);
	*codes = (struct codes){.more = table + 1, .word = *table << 8, .left = 3};
	if (!(*table & INLINE)) {
		/* A language's own routine comes first; in GCC's the codes always follow it. */
		codes->more = table + 2;
		codes->word = table[1] << 8;
		codes->words = table[1] >> 24;
		return true;
	}
	kind = *table >> 24 & 0xf;
	if (kind == 0)
		return true;
	codes->word = *table << 16;
	codes->left = 2;
	codes->words = *table >> 16 & 0xff;
	return kind <= 2;
}

struct frame {
	struct sn_registers registers;
	uintptr_t low, high;
	bool pc_known;
};

static bool pop(struct frame *frame, unsigned first, unsigned mask)
{
	uintptr_t at = frame->registers.at[SP];
	bool popped_sp = false;

	for (unsigned i = first; mask; i++, mask >>= 1) {
		if (!(mask & 1))
			continue;
		if (at < frame->low || at > frame->high - sizeof at || at % sizeof at)
			return false;
		frame->registers.at[i] = *(const volatile uintptr_t *)at;
		at += sizeof at;
		popped_sp |= i == SP;
		frame->pc_known |= i == PC;
	}
	if (!popped_sp)
		frame->registers.at[SP] = at;
	return true;
}

static uintptr_t large_increment(struct codes *codes)
{
	uintptr_t value = 0;
	unsigned shift = 0, code;

	do {
		code = next_code(codes);
		if (shift < 32)
			value |= (uintptr_t)(code & 0x7f) << shift;
		shift += 7;
	} while (code & 0x80 && shift < 35);
	return 0x204 + (value << 2);
}

/* Executes one code, which is not FINISH. */
static bool decode(struct frame *frame, struct codes *codes, unsigned code)
{
	uintptr_t *sp = &frame->registers.at[SP];
	unsigned second;

	switch (code >> 4) {
	case 0x0:
	case 0x1:
	case 0x2:
	case 0x3:
		*sp += (code & 0x3f) * 4 + 4;
		return true;
	case 0x4:
	case 0x5:
	case 0x6:
	case 0x7:
		*sp -= (code & 0x3f) * 4 + 4;
		return true;
	case 0x8:
		second = (code & 0xf) << 8 | next_code(codes);
		return second != 0 && pop(frame, R4, second);
	case 0x9:
		if ((code & 0xf) == SP || (code & 0xf) == PC)
			return false;
		*sp = frame->registers.at[code & 0xf];
		return true;
	case 0xa:
		return pop(frame, R4, (1u << ((code & 7) + 1)) - 1) &&
		       (!(code & 8) || pop(frame, LR, 1));
	case 0xb:
		if (code == 0xb1) {
			second = next_code(codes);
			return second != 0 && second < 16 && pop(frame, 0, second);
		}
		if (code == 0xb2)
			*sp += large_increment(codes);
		else if (code == 0xb3)
			*sp += ((next_code(codes) & 0xf) + 1) * 8 + 4;
		else if (code >= 0xb8)
			*sp += ((code & 7) + 1) * 8 + 4;
		else
			return false;
		return true;
	case 0xc:
		if (code != 0xc8 && code != 0xc9)
			return false;
		*sp += ((next_code(codes) & 0xf) + 1) * 8;
		return true;
	case 0xd:
		*sp += ((code & 7) + 1) * 8;
		return code < 0xd8;
	default:
		return false;
	}
}

static enum sn_step by_tables(const struct sn_module *module, uintptr_t pc,
			      struct sn_registers *registers, uintptr_t low, uintptr_t high)
{
	const uint32_t *entry = module ? find_entry(module, pc) : NULL;
	struct frame frame = {.registers = *registers, .low = low, .high = high};
	struct codes codes;
	unsigned code;

	if (!entry)
		return SN_STEP_UNKNOWN;
	if (entry[1] == CANTUNWIND)
		return SN_STEP_LAST;
	if (!find_codes(entry + 1, &codes))
		return SN_STEP_UNKNOWN;
	while ((code = next_code(&codes)) != FINISH)
		if (!decode(&frame, &codes, code))
			return SN_STEP_UNKNOWN;
	if (!frame.pc_known)
		frame.registers.at[PC] = frame.registers.at[LR];
	/* Callers have higher stack pointers. A step without progress ends the walk, so that it
	 * ends even if the tables are wrong. */
	if (frame.registers.at[SP] < registers->at[SP] ||
	    (frame.registers.at[SP] == registers->at[SP] &&
	     (frame.registers.at[PC] & ~(uintptr_t)1) == (registers->at[PC] & ~(uintptr_t)1)))
		return SN_STEP_UNKNOWN;
	*registers = frame.registers;
	return SN_STEP_DONE;
}

enum sn_step sn_ehabi_step(const struct sn_module *module, uintptr_t pc, bool interrupted,
			   struct sn_registers *registers, uintptr_t low, uintptr_t high)
{
	enum sn_step step = by_tables(module, pc, registers, low, high);

	/* The function was probably interrupted in its prologue, perhaps at the very push that
	 * overflows the stack. Its return address is then still in LR. */
	if (step == SN_STEP_UNKNOWN && interrupted) {
		registers->at[PC] = registers->at[LR];
		return SN_STEP_DONE;
	}
	return step;
}

#else

enum sn_step sn_ehabi_step(const struct sn_module *module, uintptr_t pc, bool interrupted,
			   struct sn_registers *registers, uintptr_t low, uintptr_t high)
{
	(void)module, (void)pc, (void)interrupted, (void)registers, (void)low, (void)high;
	return SN_STEP_UNKNOWN;
}

#endif
