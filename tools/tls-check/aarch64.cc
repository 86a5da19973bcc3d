/* SPDX-License-Identifier: MIT */
/* The instructions and the calling convention of aarch64, for machine.hpp. */
#include "machine.hpp"

#include <capstone/capstone.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace checking
{
namespace
{

constexpr int sp = 31;
constexpr std::int64_t tpidr_el0 =
	0xde82; /* as capstone numbers system registers: their encoding */
constexpr std::int64_t tpidrro_el0 = 0xde83;

class aarch64 final : public machine
{
public:
	aarch64()
	{
		if (cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &handle_) != CS_ERR_OK ||
		    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
			throw std::runtime_error("capstone cannot read aarch64");
		raw_ = cs_malloc(handle_);
		if (!raw_)
			throw std::bad_alloc();
		stack_pointer = sp;
		result = 0;
		for (int reg = 19; reg <= 31; reg++)
			kept |= 1u << reg;
		kept &= ~(1u << 30);
		arguments = {0, 1, 2, 3, 4, 5, 6, 7};
	}
	~aarch64() override
	{
		cs_free(raw_, 1);
		cs_close(&handle_);
	}
	aarch64(const aarch64 &) = delete;
	aarch64 &operator=(const aarch64 &) = delete;

	bool read(const std::uint8_t *bytes, std::size_t size, address at,
		  instruction &into) override;
	std::string register_name(int reg) const override
	{
		return reg == sp ? "sp" : "x" + std::to_string(reg);
	}

private:
	static int number(unsigned reg);
	static bool is_whole(unsigned reg);
	static int whole_of(const cs_arm64_op &op)
	{
		return op.type == ARM64_OP_REG && is_whole(op.reg) ? number(op.reg) : none;
	}
	operand memory_of(const cs_arm64_op &op, unsigned width, bool before) const;
	void transfer(instruction &into, bool loads, int registers) const;
	bool arithmetic(instruction &into) const;
	void other(instruction &into) const;

	csh handle_ = 0;
	cs_insn *raw_ = nullptr;
};

int aarch64::number(unsigned reg)
{
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return static_cast<int>(reg - ARM64_REG_X0);
	if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
		return static_cast<int>(reg - ARM64_REG_W0);
	switch (reg) {
	case ARM64_REG_X29:
		return 29;
	case ARM64_REG_X30:
		return 30;
	case ARM64_REG_SP:
	case ARM64_REG_WSP:
		return sp;
	default:
		return none;
	}
}

bool aarch64::is_whole(unsigned reg)
{
	return (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28) || reg == ARM64_REG_X29 ||
	       reg == ARM64_REG_X30 || reg == ARM64_REG_SP;
}

operand aarch64::memory_of(const cs_arm64_op &op, unsigned width, bool before) const
{
	operand to;

	to.base = number(op.mem.base);
	to.index = number(op.mem.index);
	/* With writeback the base has already been moved. */
	to.displacement = before ? 0 : op.mem.disp;
	to.width = width;
	return to;
}

/* ldr, ldp, str, stp: the operands are the registers, then the memory, then the number that is
 * added to the base afterwards. */
void aarch64::transfer(instruction &into, bool loads, int registers) const
{
	const auto &detail = raw_->detail->arm64;
	const int at = registers;

	if (detail.op_count <= at || detail.operands[at].type != ARM64_OP_MEM)
		return other(into); /* ldr of a literal */
	const auto &memory = detail.operands[at];
	const int base = number(memory.mem.base);
	const bool after = detail.op_count > at + 1 && detail.operands[at + 1].type == ARM64_OP_IMM;
	const bool before = detail.writeback && !after;

	if (before)
		into.add({.what = act::add, .to = base, .from = base, .number = memory.mem.disp});
	auto where = memory_of(memory, 8, before);
	/* The base is read before it is replaced. */
	const bool swap = loads && registers == 2 && number(detail.operands[0].reg) == base;
	for (int i = 0; i < registers; i++) {
		const int which = swap ? 1 - i : i;
		const auto &op = detail.operands[which];
		const int reg = whole_of(op);
		const bool half = op.reg >= ARM64_REG_W0 && op.reg <= ARM64_REG_W30;
		const bool vector = op.reg >= ARM64_REG_Q0 && op.reg <= ARM64_REG_Q31;
		auto place = where;
		place.width = half ? 4 : vector ? 16 : 8;
		if (which == 1)
			place.displacement += place.width;
		if (loads && reg != none) {
			into.add({.what = act::load, .to = reg, .memory = place});
		} else if (loads) {
			into.add({.what = act::touch, .memory = place});
			if (number(op.reg) != none)
				into.add({.what = act::forget, .to = number(op.reg)});
		} else {
			if (half && number(op.reg) != none)
				into.add({.what = act::look, .from = number(op.reg)});
			into.add({.what = act::store, .from = reg, .memory = place});
		}
	}
	if (after && base != none)
		into.add({.what = act::add,
			  .to = base,
			  .from = base,
			  .number = detail.operands[at + 1].imm});
}

/* Handles add, sub and similar instructions. Returns false for others. */
bool aarch64::arithmetic(instruction &into) const
{
	const auto &detail = raw_->detail->arm64;
	const auto *const op = detail.operands;

	if (detail.op_count != 3)
		return false;
	const int to = whole_of(op[0]);
	const int from = whole_of(op[1]);
	if (to == none || from == none)
		return false;
	if (op[2].type == ARM64_OP_IMM) {
		std::uint64_t by = static_cast<std::uint64_t>(op[2].imm);
		if (op[2].shift.type == ARM64_SFT_LSL && op[2].shift.value < 64)
			by <<= op[2].shift.value;
		if (raw_->id == ARM64_INS_ADD || raw_->id == ARM64_INS_SUB) {
			if (raw_->id == ARM64_INS_SUB)
				by = -by;
			into.add({.what = act::add,
				  .to = to,
				  .from = from,
				  .number = static_cast<std::int64_t>(by)});
			return true;
		}
		into.add({.what = to == sp ? act::realign : act::mix, .to = to, .from = from});
		return true;
	}
	if (to == sp)
		into.add({.what = act::realign, .to = to});
	else if (op[2].type == ARM64_OP_REG)
		into.add({.what = act::mix, .to = to, .from = from, .other = number(op[2].reg)});
	else
		return false;
	return true;
}

/* Handles an instruction of which only capstone's description is known. */
void aarch64::other(instruction &into) const
{
	const auto &detail = raw_->detail->arm64;
	cs_regs read;
	cs_regs written;
	std::uint8_t reads = 0;
	std::uint8_t writes = 0;
	std::uint32_t in_memory = 0;

	for (int i = 0; i < detail.op_count; i++) {
		if (detail.operands[i].type != ARM64_OP_MEM)
			continue;
		const auto memory = memory_of(detail.operands[i], 0, false);
		into.add({.what = act::touch, .memory = memory});
		for (const int reg : {memory.base, memory.index})
			if (reg != none)
				in_memory |= 1u << reg;
	}
	if (cs_regs_access(handle_, raw_, read, &reads, written, &writes) != CS_ERR_OK)
		return;
	for (int i = 0; i < reads; i++)
		if (number(read[i]) != none && !(in_memory & 1u << number(read[i])))
			into.add({.what = act::look, .from = number(read[i])});
	for (int i = 0; i < writes; i++) {
		const int reg = number(written[i]);
		if (reg != none)
			into.add({.what = reg == sp ? act::realign : act::forget, .to = reg});
	}
}

bool aarch64::read(const std::uint8_t *bytes, std::size_t size, address at, instruction &into)
{
	std::uint64_t where = at;

	into = instruction{};
	into.at = at;
	into.size = static_cast<unsigned>(std::min<std::size_t>(4, size));
	if (!cs_disasm_iter(handle_, &bytes, &size, &where, raw_))
		return false;
	into.size = raw_->size;
	const auto &detail = raw_->detail->arm64;
	const auto *const op = detail.operands;
	const auto go = [&](going how, int which) {
		into.next = how;
		if (which >= detail.op_count)
			return;
		if (op[which].type == ARM64_OP_IMM) {
			into.target = static_cast<address>(op[which].imm);
			into.has_target = true;
		} else {
			into.via.reg = whole_of(op[which]);
			into.via.known = into.via.reg != none;
		}
	};

	switch (raw_->id) {
	case ARM64_INS_B:
		go(detail.cc == ARM64_CC_INVALID || detail.cc == ARM64_CC_AL ? going::jump
									     : going::branch,
		   0);
		return true;
	case ARM64_INS_BR:
		go(going::jump, 0);
		return true;
	case ARM64_INS_CBZ:
	case ARM64_INS_CBNZ:
		if (number(op[0].reg) != none)
			into.add({.what = act::look, .from = number(op[0].reg)});
		go(going::branch, 1);
		return true;
	case ARM64_INS_TBZ:
	case ARM64_INS_TBNZ:
		if (number(op[0].reg) != none)
			into.add({.what = act::look, .from = number(op[0].reg)});
		go(going::branch, 2);
		return true;
	case ARM64_INS_BL:
	case ARM64_INS_BLR:
		go(going::call, 0);
		return true;
	case ARM64_INS_RET:
	case ARM64_INS_ERET:
		into.next = going::ret;
		return true;
	case ARM64_INS_BRK:
	case ARM64_INS_HLT:
		into.next = going::stop;
		return true;
	case ARM64_INS_NOP:
		into.padding = true;
		return true;
	case ARM64_INS_HINT:
		return true;
	case ARM64_INS_MRS:
		/* The value is read as a number, because the enumeration of registers does not
		 * have it. */
		if (detail.op_count == 2 && whole_of(op[0]) != none &&
		    op[1].type == ARM64_OP_REG_MRS &&
		    ((op[1].imm & 0xffff) == tpidr_el0 || (op[1].imm & 0xffff) == tpidrro_el0)) {
			into.add({.what = act::thread, .to = whole_of(op[0])});
			return true;
		}
		break;
	case ARM64_INS_LDR:
	case ARM64_INS_LDUR:
		transfer(into, true, 1);
		return true;
	case ARM64_INS_STR:
	case ARM64_INS_STUR:
		transfer(into, false, 1);
		return true;
	case ARM64_INS_LDP:
		transfer(into, true, 2);
		return true;
	case ARM64_INS_STP:
		transfer(into, false, 2);
		return true;
	case ARM64_INS_CMP:
	case ARM64_INS_CMN:
	case ARM64_INS_TST:
		/* capstone 4 says wrongly that these write the first register. */
		for (int i = 0; i < detail.op_count; i++)
			if (op[i].type == ARM64_OP_REG && number(op[i].reg) != none)
				into.add({.what = act::look, .from = number(op[i].reg)});
		return true;
	case ARM64_INS_ADR:
	case ARM64_INS_ADRP:
		if (detail.op_count == 2 && whole_of(op[0]) != none && op[1].type == ARM64_OP_IMM) {
			into.add({.what = act::constant,
				  .to = whole_of(op[0]),
				  .number = op[1].imm});
			return true;
		}
		break;
	case ARM64_INS_MOV:
	case ARM64_INS_MOVZ:
	case ARM64_INS_MOVN:
		if (detail.op_count == 2 && whole_of(op[0]) != none) {
			const int from = whole_of(op[1]);
			if (from != none) {
				into.add({.what = act::copy, .to = whole_of(op[0]), .from = from});
				return true;
			}
			into.add({.what = act::forget, .to = whole_of(op[0])});
			return true;
		}
		break;
	case ARM64_INS_ADD:
	case ARM64_INS_SUB:
	case ARM64_INS_AND:
	case ARM64_INS_ORR:
		if (arithmetic(into))
			return true;
		break;
	case ARM64_INS_CSEL:
		if (detail.op_count == 3 && whole_of(op[0]) != none) {
			into.add({.what = act::mix,
				  .to = whole_of(op[0]),
				  .from = whole_of(op[1]),
				  .other = whole_of(op[2])});
			return true;
		}
		break;
	default:
		break;
	}
	other(into);
	return true;
}

} // namespace

std::unique_ptr<machine> make_aarch64()
{
	return std::make_unique<aarch64>();
}

} // namespace checking
