/* SPDX-License-Identifier: MIT */
/* The instructions and the calling convention of x86_64, for machine.hpp. */
#include "machine.hpp"

#include <capstone/capstone.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace checking
{
namespace
{

constexpr int rax = 0, rcx = 1, rdx = 2, rbx = 3, rsp = 4, rbp = 5, rsi = 6, rdi = 7;

struct name_row {
	const char *name;
	x86_reg whole, half, low16, low8, high8;
};
constexpr name_row rows[] = {
	{"rax", X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
	{"rcx", X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
	{"rdx", X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
	{"rbx", X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
	{"rsp", X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL, X86_REG_INVALID},
	{"rbp", X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL, X86_REG_INVALID},
	{"rsi", X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL, X86_REG_INVALID},
	{"rdi", X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL, X86_REG_INVALID},
	{"r8", X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B, X86_REG_INVALID},
	{"r9", X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B, X86_REG_INVALID},
	{"r10", X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B, X86_REG_INVALID},
	{"r11", X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B, X86_REG_INVALID},
	{"r12", X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B, X86_REG_INVALID},
	{"r13", X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B, X86_REG_INVALID},
	{"r14", X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B, X86_REG_INVALID},
	{"r15", X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B, X86_REG_INVALID},
};

class x86 final : public machine
{
public:
	x86()
	{
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK ||
		    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
			throw std::runtime_error("capstone cannot read x86_64");
		raw_ = cs_malloc(handle_);
		if (!raw_)
			throw std::bad_alloc();
		std::fill(std::begin(numbers_), std::end(numbers_), none);
		for (int i = 0; i < 16; i++)
			for (const auto reg : {rows[i].whole, rows[i].half, rows[i].low16,
					       rows[i].low8, rows[i].high8})
				if (reg != X86_REG_INVALID)
					numbers_[reg] = i;
		stack_pointer = rsp;
		result = rax;
		call_pushes = 8;
		for (const int reg : {rbx, rsp, rbp, 12, 13, 14, 15})
			kept |= 1u << reg;
		arguments = {rdi, rsi, rdx, rcx, 8, 9};
		unknown_stops = true;
	}
	~x86() override
	{
		cs_free(raw_, 1);
		cs_close(&handle_);
	}
	x86(const x86 &) = delete;
	x86 &operator=(const x86 &) = delete;

	bool read(const std::uint8_t *bytes, std::size_t size, address at,
		  instruction &into) override;
	std::string register_name(int reg) const override { return rows[reg].name; }

private:
	bool is_whole(const cs_x86_op &op) const
	{
		return op.type == X86_OP_REG && op.size == 8 && numbers_[op.reg] != none;
	}
	int number(unsigned reg) const { return reg < X86_REG_ENDING ? numbers_[reg] : none; }
	operand memory_of(const cs_x86_op &op) const;
	void other(instruction &into) const;
	void memory_operands(instruction &into) const;
	void two_operands(instruction &into, const cs_x86_op &to, const cs_x86_op &from) const;
	void go(instruction &into, going how, const cs_x86_op &where) const;
	static bool may_keep(unsigned id);

	csh handle_ = 0;
	cs_insn *raw_ = nullptr;
	int numbers_[X86_REG_ENDING];
};

operand x86::memory_of(const cs_x86_op &op) const
{
	operand to;

	to.width = op.size;
	to.displacement = op.mem.disp;
	to.of_thread = op.mem.segment == X86_REG_FS;
	if (op.mem.base == X86_REG_RIP) {
		to.fixed = true;
		to.displacement = static_cast<std::int64_t>(raw_->address + raw_->size +
							    static_cast<address>(op.mem.disp));
	} else {
		to.base = number(op.mem.base);
		to.index = number(op.mem.index);
		to.fixed = op.mem.base == X86_REG_INVALID && op.mem.index == X86_REG_INVALID;
	}
	return to;
}

/* %fs:0 and %fs:16 hold the thread pointer itself. */
bool is_thread_pointer(const operand &memory)
{
	return memory.of_thread && memory.fixed &&
	       (memory.displacement == 0 || memory.displacement == 16);
}

void x86::go(instruction &into, going how, const cs_x86_op &where) const
{
	into.next = how;
	if (where.type == X86_OP_IMM) {
		into.target = static_cast<address>(where.imm);
		into.has_target = true;
	} else if (where.type == X86_OP_REG) {
		into.via.reg = number(where.reg);
		into.via.known = into.via.reg != none;
	} else if (where.type == X86_OP_MEM) {
		into.via.memory = memory_of(where);
		into.via.known = true;
		into.add({.what = act::touch, .memory = into.via.memory});
	}
}

/* Whether the result of the instruction may still be an address in the same object as its
 * operand. */
bool x86::may_keep(unsigned id)
{
	switch (id) {
	case X86_INS_ADD:
	case X86_INS_SUB:
	case X86_INS_AND:
	case X86_INS_OR:
		return true;
	default:
		return false;
	}
}

void x86::memory_operands(instruction &into) const
{
	const auto &detail = raw_->detail->x86;

	for (int i = 0; i < detail.op_count; i++) {
		if (detail.operands[i].type != X86_OP_MEM)
			continue;
		const auto memory = memory_of(detail.operands[i]);
		/* A write to the stack replaces the value there. */
		if (i == 0 && (detail.operands[i].access & CS_AC_WRITE))
			into.add({.what = act::store, .memory = memory});
		else
			into.add({.what = act::touch, .memory = memory});
	}
}

/* Handles an instruction of which only capstone's description is known. */
void x86::other(instruction &into) const
{
	cs_regs read;
	cs_regs written;
	std::uint8_t reads = 0;
	std::uint8_t writes = 0;

	if (raw_->id != X86_INS_NOP && raw_->id != X86_INS_LEA)
		memory_operands(into);
	if (cs_regs_access(handle_, raw_, read, &reads, written, &writes) != CS_ERR_OK)
		return;
	if (raw_->id == X86_INS_NOP)
		return;
	std::uint32_t in_memory = 0;
	for (int i = 0; i < raw_->detail->x86.op_count; i++) {
		const auto &op = raw_->detail->x86.operands[i];
		if (op.type != X86_OP_MEM)
			continue;
		for (const auto reg : {op.mem.base, op.mem.index})
			if (number(reg) != none)
				in_memory |= 1u << number(reg);
	}
	for (int i = 0; i < reads; i++)
		if (number(read[i]) != none && !(in_memory & 1u << number(read[i])))
			into.add({.what = act::look, .from = number(read[i])});
	std::uint32_t done = 0;
	for (int i = 0; i < writes; i++) {
		const int reg = number(written[i]);
		if (reg == none || (done & 1u << reg))
			continue;
		done |= 1u << reg;
		into.add({.what = reg == rsp ? act::realign : act::forget, .to = reg});
	}
}

void x86::two_operands(instruction &into, const cs_x86_op &to, const cs_x86_op &from) const
{
	const int dst = to.type == X86_OP_REG ? number(to.reg) : none;
	const int src = from.type == X86_OP_REG ? number(from.reg) : none;

	switch (raw_->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		if (is_whole(to) && is_whole(from)) {
			into.add({.what = act::copy, .to = dst, .from = src});
		} else if (is_whole(to) && from.type == X86_OP_MEM) {
			const auto memory = memory_of(from);
			if (is_thread_pointer(memory))
				into.add({.what = act::thread, .to = dst});
			else
				into.add({.what = act::load, .to = dst, .memory = memory});
		} else if (to.type == X86_OP_MEM && (is_whole(from) || from.type == X86_OP_IMM)) {
			into.add({.what = act::store, .from = src, .memory = memory_of(to)});
		} else if (to.type == X86_OP_REG && dst != none && from.type == X86_OP_IMM) {
			into.add({.what = act::constant, .to = dst, .number = from.imm});
		} else {
			other(into);
		}
		return;
	case X86_INS_LEA: {
		if (!is_whole(to) || from.type != X86_OP_MEM)
			return other(into);
		const auto memory = memory_of(from);
		if (memory.fixed)
			into.add({.what = act::constant, .to = dst, .number = memory.displacement});
		else if (memory.index == none && memory.base != none)
			into.add({.what = act::add,
				  .to = dst,
				  .from = memory.base,
				  .number = memory.displacement});
		else
			into.add({.what = act::mix,
				  .to = dst,
				  .from = memory.base,
				  .other = memory.index});
		return;
	}
	default:
		break;
	}
	if (!is_whole(to))
		return other(into);
	if (dst == rsp && raw_->id == X86_INS_AND)
		into.add({.what = act::realign, .to = dst});
	else if ((raw_->id == X86_INS_ADD || raw_->id == X86_INS_SUB) && from.type == X86_OP_IMM)
		into.add({.what = act::add,
			  .to = dst,
			  .from = dst,
			  .number = raw_->id == X86_INS_ADD
					    ? from.imm
					    : static_cast<std::int64_t>(
						      -static_cast<std::uint64_t>(from.imm))});
	else if (dst == rsp)
		other(into);
	else if (may_keep(raw_->id) && from.type == X86_OP_MEM) {
		const auto memory = memory_of(from);
		if (is_thread_pointer(memory)) {
			into.add({.what = act::thread, .to = dst, .from = dst});
		} else {
			into.add({.what = act::touch, .memory = memory});
			into.add({.what = act::mix, .to = dst, .from = dst});
		}
	} else if (may_keep(raw_->id)) {
		into.add({.what = act::mix, .to = dst, .from = dst, .other = src});
	} else if (raw_->id >= X86_INS_CMOVA && raw_->id <= X86_INS_CMOVS) {
		if (from.type == X86_OP_MEM)
			into.add({.what = act::touch, .memory = memory_of(from)});
		into.add({.what = act::mix, .to = dst, .from = dst, .other = src});
	} else {
		other(into);
	}
}

bool x86::read(const std::uint8_t *bytes, std::size_t size, address at, instruction &into)
{
	std::uint64_t where = at;

	into = instruction{};
	into.at = at;
	into.size = 1;
	if (!cs_disasm_iter(handle_, &bytes, &size, &where, raw_))
		return false;
	into.size = raw_->size;
	const auto &detail = raw_->detail->x86;
	const auto *const op = detail.operands;

	for (std::uint8_t i = 0; i < raw_->detail->groups_count; i++) {
		if (raw_->detail->groups[i] != X86_GRP_JUMP)
			continue;
		go(into, raw_->id == X86_INS_JMP ? going::jump : going::branch, op[0]);
		return true;
	}
	switch (raw_->id) {
	case X86_INS_JMP:
		go(into, going::jump, op[0]);
		return true;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
		go(into, going::branch, op[0]);
		return true;
	case X86_INS_CALL:
		go(into, going::call, op[0]);
		return true;
	case X86_INS_RET:
		into.next = going::ret;
		return true;
	case X86_INS_UD0:
	case X86_INS_UD2:
	case X86_INS_UD2B:
	case X86_INS_HLT:
	case X86_INS_INT3:
		into.next = going::stop;
		into.padding = raw_->id == X86_INS_INT3;
		return true;
	case X86_INS_NOP:
	case X86_INS_FNOP:
		into.padding = true;
		return true;
	case X86_INS_PUSH:
		if (op[0].type == X86_OP_MEM)
			into.add({.what = act::touch, .memory = memory_of(op[0])});
		into.add({.what = act::add, .to = rsp, .from = rsp, .number = -8});
		into.add({.what = act::store,
			  .from = is_whole(op[0]) ? number(op[0].reg) : none,
			  .memory = {.base = rsp, .width = 8}});
		return true;
	case X86_INS_POP:
		if (is_whole(op[0]))
			into.add({.what = act::load,
				  .to = number(op[0].reg),
				  .memory = {.base = rsp, .width = 8}});
		else
			other(into);
		into.add({.what = act::add, .to = rsp, .from = rsp, .number = 8});
		return true;
	case X86_INS_LEAVE:
		into.add({.what = act::copy, .to = rsp, .from = rbp});
		into.add({.what = act::load, .to = rbp, .memory = {.base = rsp, .width = 8}});
		into.add({.what = act::add, .to = rsp, .from = rsp, .number = 8});
		return true;
	case X86_INS_RDFSBASE:
		if (is_whole(op[0]))
			into.add({.what = act::thread, .to = number(op[0].reg)});
		else
			other(into);
		return true;
	case X86_INS_XCHG:
		if (detail.op_count == 2 && is_whole(op[0]) && is_whole(op[1])) {
			const int a = number(op[0].reg), b = number(op[1].reg);
			into.add({.what = act::mix, .to = a, .from = a, .other = b});
			into.add({.what = act::copy, .to = b, .from = a});
			return true;
		}
		break;
	case X86_INS_XOR:
		if (detail.op_count == 2 && op[0].type == X86_OP_REG && op[1].type == X86_OP_REG &&
		    op[0].reg == op[1].reg && number(op[0].reg) != none) {
			into.add({.what = act::forget, .to = number(op[0].reg)});
			return true;
		}
		break;
	default:
		break;
	}
	if (detail.op_count == 2)
		two_operands(into, op[0], op[1]);
	else
		other(into);
	return true;
}

} // namespace

std::unique_ptr<machine> make_x86()
{
	return std::make_unique<x86>();
}

} // namespace checking
