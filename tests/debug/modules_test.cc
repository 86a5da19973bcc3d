// SPDX-License-Identifier: MIT
//
// The names of functions, as dumps and profiles print them.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

extern "C" {
#include "debug/modules.h"
}

namespace
{

// It is called here, and has code enough for addresses within it.
extern "C" __attribute__((noinline, used)) int modules_test_function(int n)
{
	volatile int sum = n;

	for (int i = 0; i < n; i++)
		sum = sum + i;
	return sum;
}

// Without the bit that says that it is Thumb code.
uintptr_t address_of(int (*function)(int))
{
	auto at = reinterpret_cast<uintptr_t>(function);

#if defined(__arm__)
	at &= ~uintptr_t(1);
#endif
	return at;
}

class Symbols : public testing::Test
{
protected:
	Symbols() { sn_modules_find(modules.get()); }

	sn_symbol symbol_of(uintptr_t pc, bool is_return_address)
	{
		sn_symbol symbol;

		sn_symbol_of(modules.get(), pc, is_return_address, &symbol);
		return symbol;
	}

	std::unique_ptr<sn_modules> modules = std::make_unique<sn_modules>();
	const uintptr_t function = address_of(modules_test_function);
};

TEST_F(Symbols, AnAddressIsNamedByItsFunctionAndTheOffset)
{
	for (const unsigned offset : {0, 4}) {
		const sn_symbol symbol = symbol_of(function + offset, false);

		EXPECT_STREQ("modules_test_function", symbol.name);
		EXPECT_EQ(offset, symbol.offset);
		ASSERT_NE(nullptr, symbol.module);
		EXPECT_NE(nullptr, strstr(symbol.module, "modules-test")) << symbol.module;
	}
}

// A call may be the last instruction of its function, so the address after it may be another one's.
// The offset is that of the return address itself.
TEST_F(Symbols, AReturnAddressBelongsToTheInstructionBeforeIt)
{
	const sn_symbol inside = symbol_of(function + 4, true);
	const sn_symbol before = symbol_of(function, true);

	EXPECT_STREQ("modules_test_function", inside.name);
	EXPECT_EQ(4u, inside.offset);
	EXPECT_STRNE("modules_test_function", before.name);
}

TEST_F(Symbols, AnAddressOutsideAllModulesHasNone)
{
	int on_the_stack = 0;
	const sn_symbol symbol = symbol_of(reinterpret_cast<uintptr_t>(&on_the_stack), false);

	EXPECT_STREQ("", symbol.name);
	EXPECT_EQ(nullptr, symbol.module);
}

TEST_F(Symbols, ALibrarysFunctionIsNamedByItsDynamicSymbols)
{
	// The name may be one of several for the same address.
	void *const getenv = dlsym(RTLD_DEFAULT, "getenv");
	const sn_symbol symbol = symbol_of(reinterpret_cast<uintptr_t>(getenv), false);

	ASSERT_NE(nullptr, symbol.module);
	EXPECT_STRNE("", symbol.name) << symbol.module;
}

} // namespace
