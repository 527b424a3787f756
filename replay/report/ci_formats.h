// Findings in the formats of other tools: of continuous integration, and of platforms that show code.
#pragma once

#include <string>

#include "replay/report/findings.h"

namespace msda::replay {

// Returns JUnit's XML: a test case for each label, and for each capture without labels. It fails for findings that the
// baseline lacks, and has an error if the capture could not be read or judged.
std::string junit_of(const TrackedFindings& findings);

// Returns lines that GitHub shows as annotations of a job, "::error title=...::...": for each finding that the baseline
// lacks, and for each capture that could not be read or judged.
std::string annotations_of(const TrackedFindings& findings);

// Returns SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0) with what GitHub's upload asks for: a rule for
// each cause; for each finding a place in a file, and a fingerprint.
std::string sarif_of(const TrackedFindings& findings);

// Returns the file of a test that is named as pytest does, "tests/test_a.py::test_b[1]"; otherwise nothing.
std::string file_of_test(const std::string& test);
// "msda-replay run a.h5 --invocation 3"
std::string explaining_command(const TrackedFindings& findings, const Json& finding);

}  // namespace msda::replay
