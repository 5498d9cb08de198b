"""A run in which every string tries to break out of the format it is printed in."""

from msgspec.structs import replace

from tests.reports import sample
from warplint.finding import FileReport, Guard, KernelReport, Location, Reason, TreeNode, TreeOp, Verdict
from warplint_reports.report import Report

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&amp;{{7*7}}\x1b[31m\u202e\x00](1)"
PATH = "a/<b>\"'&#.cu"
SOURCE = (
    b"__global__ void k() {\n"
    b'  const char* s = "</script><script>alert(3)</script>"; // \x1b[2J \xe2\x80\xae \xff\x00\n'
    b"\t__syncthreads(); /* </style> </code> */\r\n  \r x\n" + b"y" * 9000 + b"\n}\n"
)
PLACE = Location(PATH, 2, 3, 2, 20, EVIL)
FINDING = replace(
    sample.BARRIER,
    message=EVIL,
    location=PLACE,
    kernel=EVIL,
    threads=EVIL,
    guards=(Guard(EVIL, EVIL, 1),),
    why=EVIL,
    remedy=EVIL,
    related=(PLACE, Location("elsewhere/" + EVIL, 1, 1, 1, 2, EVIL)),
    steps=(PLACE,),
    fingerprint='" onclick="alert(4)',
)
TREE = TreeNode(
    "kernel",
    EVIL,
    1,
    EVIL,
    "f" * 8,
    32,
    True,
    (TreeNode("if", EVIL, 2, EVIL, "not hex", 1, False, (TreeOp(EVIL, EVIL, 2, EVIL, EVIL),)),),
)
KERNEL = KernelReport(
    EVIL, PATH, 1, Verdict.INCOMPLETE, (Reason(EVIL, 2),), (FINDING, FINDING), TREE, ((EVIL, EVIL), ("arch", "gfx90a"))
)
FILES = (
    FileReport(PATH, (KERNEL,), data=SOURCE),
    FileReport(EVIL, problem=EVIL, reasons=(Reason(EVIL),), data=b"\xff\xfe\x00"),
)
REPORT = Report(FILES, sample.RULES, "0.1.0", EVIL)
