//! What the pages for operators tell them to ask the database.

use crate::callers::Caller;
use crate::stage::Stage;

const PAGES: [(&str, &str); 6] = [
    ("docs/engine.md", include_str!("../../../docs/engine.md")),
    (
        "docs/deployment.md",
        include_str!("../../../docs/deployment.md"),
    ),
    (
        "docs/recovery.md",
        include_str!("../../../docs/recovery.md"),
    ),
    ("docs/regions.md", include_str!("../../../docs/regions.md")),
    ("docs/tuning.md", include_str!("../../../docs/tuning.md")),
    (
        "observability/RUNBOOK.md",
        include_str!("../../../observability/RUNBOOK.md"),
    ),
];

/// The statements of a page about the engine's tables, in its blocks of SQL. What it asks of a
/// server itself is of one kind of server.
fn statements(page: &'static str) -> impl Iterator<Item = &'static str> {
    let blocks = page.split("```sql\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let statements = blocks.flat_map(|block| block.trim_end().split_inclusive(";\n"));
    statements.filter(|sql| sql.contains("workflow_") || sql.contains("engine_"))
}

pub(crate) async fn the_statements_of_the_pages_for_operators_work(stage: Stage) {
    let Some(mut caller) = Caller::begin(&stage.database).await else {
        return;
    };
    stage.start("w").await;

    for (name, page) in PAGES {
        assert!(statements(page).count() > 0, "{name} has no statement");
        for statement in statements(page) {
            caller.execute(statement).await;
        }
    }
}
