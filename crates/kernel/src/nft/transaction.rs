//! A list of changes to a table, applied in order and atomically.
//!
//! Only collects them: they are encoded in [`super::batch`], sent by [`super::NftClient`], printed by [`super::show`].

use super::{Chain, CountedElement, Element, KeyBytes, Name, OtherObject, Set};

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the table unless it exists.
    AddTable,
    /// Deletes the table with its contents. It must exist, or be added earlier in the transaction.
    DeleteTable,
    /// Creates a set or map unless it exists.
    AddSet(Set),
    /// Deletes a set that no rule refers to any more.
    DeleteSet(Name),
    /// Deletes all elements of a set.
    FlushSet(Name),
    /// Creates a chain unless it exists, and appends the rules.
    AddChain(Chain),
    /// Creates a chain unless it exists, and replaces its rules.
    RefillChain(Chain),
    /// Deletes a chain that nothing refers to any more, with its rules.
    DeleteChain(Name),
    /// Adds elements of one set. An element that exists must have the same value.
    AddElements(Vec<Element>),
    /// Adds elements with counters to one set. A counter of an element that exists goes on as it is.
    AddCounted(Vec<CountedElement>),
    /// Deletes elements of one set, which must exist.
    DeleteElements {
        /// The set's name.
        set: Name,
        /// The elements' keys.
        keys: Vec<KeyBytes>,
    },
    /// Creates a named counter unless it exists.
    AddCounter(Name),
    /// Deletes a named counter that no rule refers to any more.
    DeleteCounter(Name),
    /// Deletes an object of a kind that we never create, and that no rule refers to any more.
    DeleteOther(OtherObject),
}

/// Operations that are committed together.
///
/// Chains that are added one after the other may refer to each other: all are created before any gets its rules. Chains
/// that are deleted one after the other may as well: all are flushed before any is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    operations: Vec<Operation>,
    expected_generation: Option<u32>,
}

impl Transaction {
    /// A transaction without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the commit fail with [`GenerationChanged`](super::CommitError::GenerationChanged) if any program has committed
    /// since this generation.
    pub fn expect_generation(&mut self, generation: u32) -> &mut Self {
        self.expected_generation = Some(generation);
        self
    }

    /// See [`Self::expect_generation`].
    pub fn expected_generation(&self) -> Option<u32> {
        self.expected_generation
    }

    /// All operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The number of objects written: tables, sets, chains, rules, elements and counters.
    pub fn written(&self) -> usize {
        self.operations.iter().map(Operation::written).sum()
    }

    /// The number of objects removed by name or key; a flush does not count.
    pub fn removed(&self) -> usize {
        self.operations.iter().map(Operation::removed).sum()
    }

    /// Adds [`Operation::AddTable`].
    pub fn add_table(&mut self) -> &mut Self {
        self.push(Operation::AddTable)
    }

    /// Adds [`Operation::DeleteTable`].
    pub fn delete_table(&mut self) -> &mut Self {
        self.push(Operation::DeleteTable)
    }

    /// Deletes the table if it exists.
    pub fn delete_table_if_exists(&mut self) -> &mut Self {
        // Adding an existing table does nothing, so that afterwards it exists in any case.
        self.push(Operation::AddTable).push(Operation::DeleteTable)
    }

    /// Adds [`Operation::AddSet`].
    pub fn add_set(&mut self, set: Set) -> &mut Self {
        self.push(Operation::AddSet(set))
    }

    /// Adds [`Operation::DeleteSet`].
    pub fn delete_set(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteSet(name))
    }

    /// Adds [`Operation::FlushSet`].
    pub fn flush_set(&mut self, name: Name) -> &mut Self {
        self.push(Operation::FlushSet(name))
    }

    /// Adds [`Operation::AddChain`].
    pub fn add_chain(&mut self, chain: Chain) -> &mut Self {
        self.push(Operation::AddChain(chain))
    }

    /// Adds [`Operation::RefillChain`].
    pub fn refill_chain(&mut self, chain: Chain) -> &mut Self {
        self.push(Operation::RefillChain(chain))
    }

    /// Adds [`Operation::DeleteChain`].
    pub fn delete_chain(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteChain(name))
    }

    /// Adds [`Operation::AddCounter`].
    pub fn add_counter(&mut self, name: Name) -> &mut Self {
        self.push(Operation::AddCounter(name))
    }

    /// Adds [`Operation::DeleteCounter`].
    pub fn delete_counter(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteCounter(name))
    }

    /// Adds [`Operation::DeleteOther`].
    pub fn delete_other(&mut self, object: OtherObject) -> &mut Self {
        self.push(Operation::DeleteOther(object))
    }

    /// Adds an element. Consecutive elements of one set share an operation.
    pub fn add_element(&mut self, element: Element) -> &mut Self {
        if let Some(Operation::AddElements(elements)) = self.operations.last_mut()
            && elements.last().is_some_and(|last| last.set == element.set)
        {
            elements.push(element);
            return self;
        }
        self.push(Operation::AddElements(vec![element]))
    }

    /// Adds elements with counters. Consecutive ones of one set share an operation.
    pub fn add_counted(&mut self, elements: impl IntoIterator<Item = CountedElement>) -> &mut Self {
        for element in elements {
            match self.operations.last_mut() {
                Some(Operation::AddCounted(list))
                    if list.last().is_some_and(|last| last.set == element.set) =>
                {
                    list.push(element);
                }
                _ => drop(self.push(Operation::AddCounted(vec![element]))),
            }
        }
        self
    }

    /// Removes and returns the element that was added last, if that was the last operation.
    pub fn pop_element(&mut self) -> Option<Element> {
        let Some(Operation::AddElements(elements)) = self.operations.last_mut() else { return None };
        let last = elements.pop();
        if elements.is_empty() {
            self.operations.pop();
        }
        last
    }

    /// Like [`Self::add_element`], for many.
    pub fn add_elements(&mut self, elements: impl IntoIterator<Item = Element>) -> &mut Self {
        for element in elements {
            self.add_element(element);
        }
        self
    }

    /// Deletes the element with this key from a set.
    pub fn delete_element(&mut self, set: &Name, key: KeyBytes) -> &mut Self {
        if let Some(Operation::DeleteElements { set: last, keys }) = self.operations.last_mut()
            && last == set
        {
            keys.push(key);
            return self;
        }
        self.push(Operation::DeleteElements { set: set.clone(), keys: vec![key] })
    }

    /// Deletes these elements by their keys.
    pub fn delete_elements<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> &mut Self {
        for element in elements {
            self.delete_element(&element.set, element.key.clone());
        }
        self
    }

    fn push(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }
}

impl Operation {
    fn written(&self) -> usize {
        match self {
            Self::AddTable | Self::AddSet(_) | Self::AddCounter(_) => 1,
            Self::AddChain(chain) | Self::RefillChain(chain) => 1 + chain.rules.len(),
            Self::AddElements(elements) => elements.len(),
            Self::AddCounted(elements) => elements.len(),
            Self::DeleteTable
            | Self::DeleteSet(_)
            | Self::FlushSet(_)
            | Self::DeleteChain(_)
            | Self::DeleteElements { .. }
            | Self::DeleteCounter(_)
            | Self::DeleteOther(_) => 0,
        }
    }

    fn removed(&self) -> usize {
        match self {
            Self::DeleteTable
            | Self::DeleteSet(_)
            | Self::DeleteChain(_)
            | Self::DeleteCounter(_)
            | Self::DeleteOther(_) => 1,
            Self::DeleteElements { keys, .. } => keys.len(),
            Self::AddTable
            | Self::AddSet(_)
            | Self::FlushSet(_)
            | Self::AddChain(_)
            | Self::RefillChain(_)
            | Self::AddElements(_)
            | Self::AddCounted(_)
            | Self::AddCounter(_) => 0,
        }
    }
}
