"""python3 -m unittest discover -s tools"""

import unittest

import loops

SASS = """
 Resource usage:
 Function _Zk:
  REG:94 STACK:0 SHARED:8192
\t\tFunction : _Zk
        /*0000*/                   LDG.E R1, desc[UR4][R2.64] ;
        /*0010*/                   FFMA R9, R9, R9, R9 ;
.L_1:
        /*0020*/                   LDS.128 R4, [R20] ;
        /*0030*/                   LDS R8, [R20+0x10] ;
        /*0040*/                   FFMA R30, R4.reuse, R8, R30 ;
        /*0050*/                   FFMA R31, R4, R8, R31 ;
        /*0060*/                   @P0 FFMA R32, R5, R9, R33 ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/              @!P0 BRA 0x20 ;
        /*0090*/                   EXIT ;
\t\tFunction : _Zother
        /*0000*/                   EXIT ;
"""


class Count(unittest.TestCase):
    def test_the_loop_and_nothing_else(self):
        row, = loops.count(SASS)
        self.assertEqual((row["kernel"], row["instructions"], row["fma"], row["shared_loads"], row["wide"], row["barriers"]),
                         ("_Zk", 7, 3, 2, 1, 1))
        self.assertEqual((row["global_loads"], row["registers"]), (0, 94))

    def test_bank_conflicts(self):
        fma = "FFMA R0, "
        self.assertEqual(loops.bank_conflicts([fma + "R2, R4, R7"]), 1)  # two even ones in two clocks
        self.assertEqual(loops.bank_conflicts([fma + "R2, R4, R6"]), 2)
        self.assertEqual(loops.bank_conflicts([fma + "R2, R2, R7"]), 0)  # one register twice is read once
        self.assertEqual(loops.bank_conflicts([fma + "R2.reuse, R3, R3", fma + "R2, R4, R7"]), 0)  # kept in its place
        self.assertEqual(loops.bank_conflicts([fma + "R2.reuse, R3, R3", fma + "R4, R2, R7"]), 1)  # but not in another
        self.assertEqual(loops.bank_conflicts([fma + "R2.reuse, R3, R3", "NOP", fma + "R2, R4, R7"]), 1)
        self.assertEqual(loops.bank_conflicts([fma + "-R2, |R4|, 2"]), 1)

    def test_short_names(self):
        self.assertEqual(loops.short("void gemm_kernel<Tile<(int)8, (int)128>, (bool)1>(float const*, int)"),
                         "gemm_kernel<Tile<8, 128>, 1>")
        self.assertEqual(loops.short("void gemm_kernel<Tile<8, 128> >(float const*, int)"), "gemm_kernel<Tile<8, 128>>")
        self.assertEqual(loops.short("gemm_kernel(float const*, int)"), "gemm_kernel")


if __name__ == "__main__":
    unittest.main()
