// The subcommands, one file each: a function adds its subcommand to the application; running it sets `status` to the
// exit status.
#pragma once

namespace CLI {
class App;
}

namespace msda::replay {

void add_run_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
void add_show_command(CLI::App& app, int& status);
void add_stages_command(CLI::App& app, int& status);
void add_order_command(CLI::App& app, int& status);
void add_advise_command(CLI::App& app, int& status);
void add_stress_command(CLI::App& app, int& status);
void add_recover_command(CLI::App& app, int& status);
void add_minimize_command(CLI::App& app, int& status);
void add_gradcheck_command(CLI::App& app, int& status);
void add_diff_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_export_command(CLI::App& app, int& status);
void add_poison_worker_command(CLI::App& app, int& status);
void add_report_command(CLI::App& app, int& status);
void add_explain_command(CLI::App& app, int& status);
void add_survey_command(CLI::App& app, int& status);
void add_verify_command(CLI::App& app, int& status);
void add_adapter_command(CLI::App& app, int& status);

}  // namespace msda::replay
