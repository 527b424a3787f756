// Instructions that read bank 0, what nvdisasm 13.5 prints of them, and how many bytes they read: of what nvcc 13.0
// makes of the kernels of parameters_read_test.cpp.
#pragma once

#include <cstdint>

namespace msda::record {

struct ListedRead {
  int first, last;     // architectures
  unsigned begin;      // of the parameters in the bank
  unsigned at, bytes;  // in the bank; 0 bytes: anything
  uint64_t low, high;
  const char* name;
};

inline constexpr ListedRead kListedReads[] = {
    {80, 89, 0x160, 0x1BC, 4, 0x00006f00ff037624, 0x000fc600078e00ff, "IMAD.MOV.U32 R3, RZ, RZ, c[0x0][0x1bc]"},
    {80, 89, 0x160, 0x168, 8, 0x00005a0002027629, 0x002e4e0000000000, "DADD R2, R2, c[0x0][0x168]"},
    {80, 89, 0x160, 0x168, 8, 0x00005a0002027a2b, 0x0020640000000004, "DFMA R2, R2, c[0x0][0x168], R4"},
    {80, 89, 0x160, 0x1B8, 8, 0x00006e0004047625, 0x001fca00078e0005, "IMAD.WIDE.U32 R4, R4, R5, c[0x0][0x1b8]"},
    {80, 89, 0x160, 0x160, 1, 0x00005800ff007b82, 0x000e220000000000, "LDC.U8 R0, c[0x0][0x160]"},
    {80, 89, 0x160, 0x160, 1, 0x0000580000047ab9, 0x000fe20000000200, "ULDC.S8 UR4, c[0x0][0x160]"},
    {80, 89, 0x160, 0x19C, 4, 0x000067000e027a10, 0x000fd60007ffe0ff, "IADD3 R2, R14, c[0x0][0x19c], RZ"},
    {80, 89, 0x160, 0x170, 4, 0x00005c0003007a0c, 0x000fca0003f06270, "ISETP.GE.AND P0, PT, R3, c[0x0][0x170], PT"},
    {80, 89, 0x160, 0x188, 4, 0x0000620002047a12, 0x000fe400078e3cff, "LOP3.LUT R4, R2, c[0x0][0x188], RZ, 0x3c, !PT"},
    {80, 89, 0x160, 0x040, 0, 0x0000100000047ab9, 0x000fe20000000a00, "ULDC.64 UR4, c[0x0][0x40]"},
    {90, 90, 0x210, 0x268, 8, 0x00009a00ff027b82, 0x000e220000000a00, "LDC.64 R2, c[0x0][0x268]"},
    {90, 90, 0x210, 0x254, 4, 0x0000950000047ab9, 0x000fe40000000800, "ULDC UR4, c[0x0][0x254]"},
    {90, 90, 0x210, 0x210, 1, 0x0000840000047ab9, 0x000fe20000000000, "ULDC.U8 UR4, c[0x0][0x210]"},
    {90, 90, 0x210, 0x198, 0, 0x00006600ff047b82, 0x000e240000000a00, "LDC.64 R4, c[0x0][0x198]"},
    {100, 121, 0x380, 0x3D8, 8, 0x0000f600ff027b82, 0x000e220000000a00, "LDC.64 R2, c[0x0][0x3d8]"},
    {100, 121, 0x380, 0x3C4, 4, 0x00007880ff0477ac, 0x000e220008000800, "LDCU UR4, c[0x0][0x3c4]"},
    {100, 121, 0x380, 0x380, 1, 0x00007000ff0477ac, 0x000e220008000000, "LDCU.U8 UR4, c[0x0][0x380]"},
    {100, 121, 0x380, 0x348, 0, 0x0000d200ff047b82, 0x000e240000000a00, "LDC.64 R4, c[0x0][0x348]"},
};

}  // namespace msda::record
