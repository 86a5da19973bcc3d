/* SPDX-License-Identifier: MIT */
/*
 * Reads instructions of x86_64 and aarch64 by capstone, and knows the calling conventions
 * (System V, AAPCS64).
 */
#ifndef TLS_CHECK_MACHINE_HPP
#define TLS_CHECK_MACHINE_HPP

#include "code.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace checking
{

class machine
{
public:
	virtual ~machine() = default;

	/* Reads one instruction. Returns false if capstone does not know the bytes; `into` then
	 * has the size to skip, and no effect. size > 0. */
	virtual bool read(const std::uint8_t *bytes, std::size_t size, address at,
			  instruction &into) = 0;
	virtual std::string register_name(int reg) const = 0;

	int stack_pointer = none;
	int result = none;
	std::int64_t call_pushes = 0; /* bytes on the stack at a function's beginning */
	std::uint32_t kept = 0;       /* the registers that a callee preserves, as bits */
	std::vector<int> arguments;   /* the registers in which values are passed */
	bool unknown_stops = false;   /* unknown instructions have an unknown size */
};

std::unique_ptr<machine> make_x86();
std::unique_ptr<machine> make_aarch64();

} // namespace checking

#endif
