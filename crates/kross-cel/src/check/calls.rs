//! Function calls: resolves the function, and reports why no overload matches.

use kross_diagnostics::{Code, suggest};

use super::Checker;
use super::messages::is_macro;
use super::names::{qualified, root};
use crate::ast::{Expr, Name};
use crate::error::Issue;
use crate::library::OverloadId;
use crate::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        function: &Name,
        receiver: Option<&Expr>,
        arguments: &[Expr],
    ) -> Type {
        let env = self.env;
        let namespaced = receiver.and_then(|receiver| self.namespaced(receiver, function));
        let target = receiver.filter(|_| namespaced.is_none());
        if receiver.is_none() && is_macro(&function.text) && env.find_function(&function.text).is_none() {
            return self.macro_without_receiver(function);
        }
        let mut types = Vec::with_capacity(arguments.len() + 1);
        types.extend(target.map(|target| self.receiver(target, function)));
        types.extend(arguments.iter().map(|argument| self.expr(argument)));
        let Some(ids) = namespaced.or_else(|| env.find_function(&function.text)) else {
            // The receiver has an error that was reported; the function may exist on the correct type.
            if target.is_some() && types.first() == Some(&Type::Error) {
                return Type::Error;
            }
            return self.unknown_function(function, target, &types);
        };
        let member = target.is_some();
        if let Some(result) = self.resolve_overloads(expr, ids, member, namespaced.is_some(), &types) {
            return result;
        }
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        let operands: Vec<&Expr> = target.into_iter().chain(arguments).collect();
        self.no_call(expr, function, ids, member, &operands, &types)
    }

    /// The type of the receiver. A namespace that lacks the function is reported as one error.
    fn receiver(&mut self, receiver: &Expr, function: &Name) -> Type {
        if let Some((first, rooted)) = root(receiver)
            && (rooted || !self.is_local(first))
            && self.env.find(first).is_none()
        {
            let mut namespace = String::new();
            qualified(receiver, &mut namespace);
            if self.env.functions().is_namespace(&namespace) {
                return self.unknown_in_namespace(&namespace, function);
            }
        }
        self.expr(receiver)
    }

    fn unknown_in_namespace(&mut self, namespace: &str, function: &Name) -> Type {
        let prefix = format!("{namespace}.");
        let mut names: Vec<&str> =
            self.env.functions().names().filter_map(|name| name.strip_prefix(&*prefix)).collect();
        names.sort_unstable();
        let found = &function.text;
        let message = format!("unknown function `{namespace}.{found}`");
        let issue = Issue::new(Code::UnknownFunction, function.span, message);
        self.issues.push(match suggest(found, names.iter().copied()) {
            Some(meant) => issue.help(format!("did you mean `{namespace}.{meant}`?")).replace(meant),
            None => issue.help(format!("functions of `{namespace}`: {}", names.join(", "))),
        });
        Type::Error
    }

    /// `a.b.f` as the qualified name of a function.
    fn namespaced(&mut self, receiver: &Expr, function: &Name) -> Option<&'a [OverloadId]> {
        let (first, _) = root(receiver)?;
        let env = self.env;
        if !env.is_namespace_root(first) {
            return None;
        }
        let mut name = String::new();
        if !qualified(receiver, &mut name) {
            return None;
        }
        name.push('.');
        name.push_str(&function.text);
        env.find_function(&name)
    }
}
